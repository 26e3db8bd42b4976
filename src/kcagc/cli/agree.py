"""`kcagc propose`, `kcagc approve` and `kcagc revoke`: the participants agree on the next runs of a federation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import JSON, ParameterCommand
from kcagc.cli.roles import load_config, options

if TYPE_CHECKING:
    from kcagc.federation.agreeing import AgreeingRole
    from kcagc.protocol.approval import CheckedProposal

_TASKS = ("fit", "predict", "match", "count")
_ACCEPT = click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="Accept a disclosure beyond the default settings, by name; can be repeated.",
)


@click.command(cls=ParameterCommand, without=("aggregator",))
@options("config", "address", "state")
@click.option("--n-clusters", type=int, help="Number of clusters k to find  [default: that of the configuration].")
@click.option("--runs", type=int, default=1, show_default=True, help="How many runs the proposal allows.")
@click.option("--days", type=float, default=30.0, show_default=True, help="How long the proposal is valid.")
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=click.Choice(_TASKS),
    help="What the proposal allows: fit, predict (kcagc predict), match or count (kcagc match); can be repeated  "
    "[default: fit].",
)
@_ACCEPT
@JSON
def propose(
    config: Path,
    runs: int,
    days: float,
    tasks: tuple[str, ...],
    accept: tuple[str, ...],
    *,
    as_json: bool,
    **given: Any,
) -> None:
    """Propose the settings of the next runs to all other participants, and approve them as this party.

    Settings that no option gives are those of [session] in the configuration. The other participants read and decide
    with kcagc approve. Then the runs have these settings, and no file is edited. Another setting needs a new proposal.
    """
    from kcagc.federation.agreeing import AgreeingRole, ProposalTerms

    role = AgreeingRole(load_config(config, address=given.pop("address"), state=given.pop("state")))
    settings = {name: value for name, value in given.items() if value is not None}
    terms = ProposalTerms(tuple(dict.fromkeys(tasks)) or ("fit",), runs, days)  # type: ignore[arg-type]
    found = asyncio.run(role.propose(settings, terms, accept))
    if as_json:
        terminal.print_json(found.as_dict())
        return
    _show_settings(role, found)
    _show_state(found)


@click.command()
@options("config", "address", "state")
@click.option("--number", type=int, help="The number of the proposal  [default: the newest].")
@click.option("--yes", is_flag=True, help="Approve without a question.")
@click.option("--decline", is_flag=True, help="Decline; a proposal that was approved can still be declined.")
@click.option("--reason", default="", help="Why this role declines; all participants see it.")
@_ACCEPT
@JSON
def approve(
    config: Path,
    number: int | None,
    *,
    yes: bool,
    decline: bool,
    reason: str,
    accept: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Read the newest proposal: its settings and what each role learns. Then approve or decline it.

    A party asks its coordinator for it. At a coordinator, name its configuration in the folder of kcagc serve with
    --config. An approval accepts no disclosure beyond the default settings: each needs --accept NAME, or its name in
    [policy].
    """
    from kcagc.errors import ParameterError
    from kcagc.federation.agreeing import AgreeingRole

    if reason and not decline:
        raise ParameterError("--reason: is only for --decline")
    role = AgreeingRole(load_config(config, **given))
    asyncio.run(role.update())
    found = role.newest(number)
    me, numbered = role.config.me, f"proposal {found.proposal.number}"
    if not as_json:
        _show_settings(role, found)
    if decline:
        found = asyncio.run(role.decide(found, approves=False, reason=reason))
    elif me not in found.decisions:
        found.require_accepted(me, (*role.config.document.policy.accept, *accept))
        if not as_json:
            _show_pages(role, found, accept)
        if not yes and not _answered(f"Approve {numbered} as {me}?"):
            click.echo(f"{numbered} is neither approved nor declined; to decline it: kcagc approve --decline", err=True)
            return
        found = asyncio.run(role.decide(found, approves=True, accepts=accept))
    if as_json:
        terminal.print_json(found.as_dict())
    else:
        _show_state(found)


@click.command()
@click.argument("name")
@options("config", "state")
@click.option("--reason", default="", help="Why; a role with this key sees it.")
def revoke(name: str, config: Path, state: Path | None, reason: str) -> None:
    """Refuse the identity key of participant NAME from now on: its proposals, its approvals and its sessions.

    Run this when a private key was lost or stolen, at every role that shall refuse it. The federation can run no more
    without this participant: found a new one (kcagc invite).
    """
    from kcagc.deploy.agreed import ProposalFolder
    from kcagc.errors import ParameterError

    own = load_config(config, state=state)
    names = [one.name for one in own.document.participants if one.name != own.me]
    if name not in names:
        raise ParameterError(f"NAME: {name!r} is not another participant; these are {', '.join(names)}")
    made = ProposalFolder.of(own).revoke(name, reason)
    terminal.out().print(f"{made}. No run of this federation starts here any more.", soft_wrap=True, markup=False)


def _answered(question: str) -> bool:
    from kcagc.errors import ParameterError

    try:
        return click.confirm(question, default=False)
    except click.Abort:
        click.echo(err=True)
        raise ParameterError("no answer: answer y or n, or use --yes or --decline") from None


def _show_settings(role: AgreeingRole, found: CheckedProposal) -> None:
    """Print what is proposed."""
    import msgspec

    from kcagc.protocol.approval import moment
    from kcagc.text import count, listed, printable

    proposal = found.proposal
    before = msgspec.to_builtins(role.config.parameters())
    given = msgspec.to_builtins(proposal.settings)
    rows = msgspec.to_builtins(proposal.parameters)
    click.echo(
        f"Proposal {proposal.number} of {proposal.proposer}, made {moment(proposal.made)}, valid until "
        f"{moment(proposal.expires)}: {count(proposal.runs, 'run')} {'each ' * (len(proposal.tasks) > 1)}of "
        f"{listed(list(proposal.tasks))}"
    )
    for name, value in rows.items():
        if name in ("task", "model") or (not value and before[name] == value):  # what is off says nothing
            continue
        asked = given.get(name)
        notes = [f"here: {before[name]}"] if before[name] != value else []
        notes += [f"asked for: {printable(str(asked))}"] if asked is not None and asked != value else []
        click.echo(f"  {name:<17} {value}" + (f"   ({'; '.join(notes)})" if notes else ""))


def _show_pages(role: AgreeingRole, found: CheckedProposal, accept: tuple[str, ...]) -> None:
    """Print what each task of a proposal discloses, for the reader of this role."""
    from kcagc.federation.agreeing import pages

    accepted = [*role.config.document.policy.accept, *accept]
    for agreement in found.agreements():
        click.echo(f"\n{pages(agreement, role.config.me, accepted)}")


def _show_state(found: CheckedProposal) -> None:
    """Print who has decided what, and what comes next."""
    from kcagc.federation.agreeing import waiting_for
    from kcagc.text import printable

    for name, decision in found.decisions.items():
        verdict = "approves" if decision.approves else "declines"
        accepts = f", and accepts {printable(', '.join(decision.accepts))}" if decision.accepts else ""
        reason = f": {printable(decision.reason)}" if decision.reason else ""
        click.echo(f"{name} {verdict}{accepts}{reason}")
    click.echo(waiting_for(found) + (_next_step(found) if found.approved else ""))


def _next_step(found: CheckedProposal) -> str:
    """Return who starts the tasks of an approved proposal; the coordinator that stays opens fits only."""
    commands = {"predict": "kcagc predict", "match": "kcagc match", "count": "kcagc match --count"}
    other = [commands[task] for task in found.proposal.tasks if task in commands]
    fit = " Each party can start the run: kcagc party." if "fit" in found.proposal.tasks else ""
    all_roles = f" Every role starts it, the coordinator too: {', '.join(other)}." if other else ""
    return f"{fit}{all_roles}".removesuffix(".")
