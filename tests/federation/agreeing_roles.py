"""A federation that requires approved proposals, with a standing coordinator in this process, for the tests."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from deploy.collaboration import edit
from federation.folders import federation, meet_at
from kcagc.deploy.config import Config
from kcagc.deploy.finished import complete_folder
from kcagc.deploy.run import RoleRun, open_journal, role_spec, stored_summary
from kcagc.federation.agreeing import AgreeingRole, ProposalTerms, for_next_run
from kcagc.federation.folder import StandingFolder
from kcagc.federation.service import Service
from kcagc.protocol.approval import ProposalState
from kcagc.runtime.client import RoleClient
from kcagc.runtime.durable import RECEIPTS


class Agreeing:
    """Two parties and a coordinator; `settings` are those of the files, `automatic` what each role approves itself."""

    def __init__(self, root, *, automatic=("never", "never", "any"), **settings):
        self.place = root / "standing"
        self.configs = federation(root, self.place, "east", **settings)
        self.coordinator = self.place / "federations" / "east" / "kcagc.toml"
        for path, which in zip((*self.configs.values(), self.coordinator), automatic, strict=True):
            section = f'[approval]\nrequired = true\nautomatic = "{which}"\nmax_runs = 5\n\n[output]'
            edit(path, r"^\[output\]", section)

    def config(self, name):
        return Config.load(self.configs.get(name, self.coordinator))

    def role(self, name, **more):
        return AgreeingRole(self.config(name), **more)

    @contextlib.asynccontextmanager
    async def serving(self):
        service = Service(StandingFolder.open(self.place), "127.0.0.1:0")
        service.refresh()
        task = asyncio.create_task(service.run())
        meet_at(self.configs, service.port)
        try:
            yield service
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def propose(self, name="alice", *, runs=1, days=1.0, tasks=("fit",), accepts=(), **settings):
        terms = ProposalTerms(tasks, runs, days)
        return await self.role(name).propose({"psi": 1, **settings}, terms, accepts)

    async def approve(self, name="bob", **more):
        role = self.role(name)
        await role.update()
        return await role.decide(role.newest(), approves=True, **more)

    async def run_party(self, name, *, new_session=False, change=None):
        """Run a party to its end in this process, as `kcagc party` does; return its summary."""
        config = self.config(name)
        status = RoleRun(config).status()
        config, new_session = await for_next_run(config, "fit", status, new_session=new_session)
        run = RoleRun(config)
        if change is not None:
            change(run)
        journal = open_journal(run, new_session)
        try:
            if journal.status == "finished":
                return stored_summary(journal)
            run.check()
            address = run.config.document.network.address
            await RoleClient(role_spec(run, journal, [], None, None), address).run()
            return complete_folder(run, stored_summary(journal), journal.fact(RECEIPTS), [])
        finally:
            journal.close()

    async def run_all(self, **more):
        return await asyncio.gather(*(self.run_party(name, **more) for name in self.configs))


async def ended(service):
    """Wait until no run is open."""
    async with asyncio.timeout(30):
        while any(one.run is not None for one in service.federations.values()):
            await asyncio.sleep(0.01)


def changed_record(signed, **fields):
    """Return a signed record with other fields and the old signature."""
    content = msgspec.json.decode(signed.content) | fields
    return msgspec.structs.replace(signed, content=msgspec.json.encode(content).decode())


def with_decisions(state, *decisions):
    return ProposalState(state.proposal, decisions)
