"""Folders of several federations with one standing coordinator, for the tests."""

from __future__ import annotations

from deploy.collaboration import edit, write_data
from kcagc.deploy.folders import FolderPlan, write_folders


def federation(root, standing, name, parties=("alice", "bob"), *, coordinator="", **settings):
    """Write the folders of a federation, the coordinator's into the standing folder; return the parties' files."""
    plan = FolderPlan.of(
        list(parties),
        coordinator=coordinator or f"{name}-coordinator",
        address="127.0.0.1:7443",
        listen="127.0.0.1:7443",
        n_clusters=3,
        psi=1,
        **settings,
    )
    configs = write_folders(root / name, plan)
    for number, party in enumerate(plan.parties):
        write_data(configs[party].parent / "data", seed=number)
    (standing / "federations").mkdir(parents=True, exist_ok=True)
    configs.pop(plan.coordinator).parent.rename(standing / "federations" / name)
    return configs


def meet_at(configs, port):
    """Let parties connect to a port of this machine."""
    for path in configs.values():
        edit(path, r"^address = .*", f'address = "127.0.0.1:{port}"')
