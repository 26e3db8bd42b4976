"""The process of a standing coordinator: it serves all federations in its folder, at one address, until it is stopped.

A stream names its federation by a digest of the participants, and goes to the run of that federation. A request goes
to its method. A federation that appears in the folder, changes or disappears needs no restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping

from kcagc.errors import KcagcError, ParameterError, PeerError
from kcagc.federation.folder import Stamp, StandingFolder, stamp_of
from kcagc.federation.hosting import HostedFederation
from kcagc.federation.meetings import Meetings
from kcagc.federation.methods import Method, answer
from kcagc.federation.proposals import Proposals
from kcagc.federation.waiting import RunsToWaitFor
from kcagc.net.frames import Rejected, RejectionReason, Request
from kcagc.net.gate import OF_A_ROLE
from kcagc.net.grpc_server import Caller, Server, ServerStream
from kcagc.net.tls import Credentials

logger = logging.getLogger(__name__)

_LOOK_AGAIN = 1.0  # seconds until the folder is looked at again
_STREAMS_END = 0.5  # seconds for open streams when the process stops


class Service:
    """The coordinator of all federations in a folder."""

    def __init__(self, folder: StandingFolder, listen: str) -> None:
        self.folder, self._listen = folder, listen
        self.federations: dict[str, HostedFederation] = {}
        self.problems: dict[str, str] = {}  # why a federation in the folder is not served
        self.refused: Counter[str] = Counter(request=0, stream=0)
        self._by_digest: dict[bytes, HostedFederation] = {}
        self._credentials: dict[str, Credentials] = {}  # of the coordinator in each federation
        self._authorities = folder.credentials.ca
        self._roles: Counter[str] = Counter()  # in how many federations a role has this name in its certificate
        self._seen: Stamp | None = None
        self._runs = RunsToWaitFor(self._federation_of)
        self._proposals = Proposals(self._federation_of)
        self.meetings = Meetings(folder.path, folder.identity, folder.credentials, on_change=self.refresh)
        self._server = Server(
            listen,
            folder.credentials,
            self._serve,
            self._answer,
            lambda: self._authorities,
            self._other_credentials,
            self._note_rejected,
            self._holder,
        )

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._server.port)

    @property
    def refused_connections(self) -> int:
        """The number of connections that were closed: of strangers, or of a role that had too many."""
        return self._server.refused_connections

    def methods(self) -> Mapping[str, Method]:
        """Return everything that it answers outside sessions."""
        return {**self._runs.methods(), **self._proposals.methods(), **self.meetings.methods()}

    async def run(self) -> None:
        """Serve until this is cancelled; interrupted runs go on at once."""
        self.refresh()
        resuming = [asyncio.create_task(one.resume()) for one in self.federations.values()]
        await self._server.start()
        try:
            while True:
                await asyncio.sleep(_LOOK_AGAIN)
                self.refresh()
        finally:
            for task in resuming:
                task.cancel()
            await asyncio.gather(*resuming, *(one.stop() for one in self.federations.values()), return_exceptions=True)
            await self._server.stop(_STREAMS_END)

    def refresh(self) -> None:
        """Look at the folder, and take up everything that is new, changed or gone."""
        if self._seen is not None and self._seen == self._stamp():
            return
        configurations = self.folder.configurations()
        by_digest: dict[bytes, HostedFederation] = {}
        credentials: dict[str, Credentials] = {}
        roles: Counter[str] = Counter()
        problems: dict[str, str] = {}
        for name, path in configurations.items():
            federation = self.federations.get(name) or HostedFederation(name, path, self._listen)
            try:
                config = federation.config()
                credentials[name] = federation.credentials()
                self._check_name(name, credentials)
                if (other := by_digest.setdefault(config.agreement().federation, federation)) is not federation:
                    raise ParameterError(f"{path}: has the same participants as {other.name}")
            except (KcagcError, OSError) as error:
                credentials.pop(name, None)
                problems[name] = str(error)
                if self.problems.get(name) != problems[name]:
                    logger.warning("%s is not served: %s", name, error)
                continue
            roles.update(one.lower() for one in config.tls_names().values())
            if name not in self.federations:
                logger.info("serving %s", name)
            self.federations[name] = federation
        for name in self.federations.keys() - configurations.keys():
            logger.info("%s is not served any longer", name)
            asyncio.get_running_loop().create_task(self.federations.pop(name).stop())
        self._by_digest, self._credentials, self._roles, self.problems = by_digest, credentials, roles, problems
        trusted = [path.read_bytes() for path in self.folder.authority_files()]
        self._authorities = b"\n".join(dict.fromkeys((*trusted, *(one.ca for one in credentials.values()))))
        self._seen = self._stamp()

    def _check_name(self, name: str, credentials: Mapping[str, Credentials]) -> None:
        """Refuse a second certificate with the same name: a party could not choose between them."""
        own = credentials[name]
        for other, one in {"the coordinator itself": self.folder.credentials, **credentials}.items():
            same = one.names & own.names
            if other != name and same and one.certificate != own.certificate:
                raise ParameterError(
                    f"{own.certificate_file}: has the name {min(same)}, as another certificate that {other} uses; make "
                    "the folders with kcagc init --coordinator NAME, with another NAME for each federation"
                )

    def _stamp(self) -> Stamp:
        files = [*self.folder.configurations().values(), *self.folder.authority_files()]
        for one in self._credentials.values():
            files += one.files
        return stamp_of(files)

    def _other_credentials(self) -> tuple[Credentials, ...]:
        own = self.folder.credentials.certificate
        return tuple({one.certificate: one for one in self._credentials.values() if one.certificate != own}.values())

    def _holder(self, names: frozenset[str]) -> tuple[str, int]:
        """Return the role or the meeting that a certificate is for; all other certificates together are one holder.

        So more names under its own authority give a role no more connections.
        """
        for name in sorted(names):
            if at_most := OF_A_ROLE * self._roles[name] or self.meetings.connections(name):
                return name, at_most
        return "", OF_A_ROLE

    async def _serve(self, stream: ServerStream) -> None:
        with self._counting("stream"):
            await self._federation_of(stream.caller).serve(stream)

    def _note_rejected(self, caller: Caller, rejection: Rejected) -> None:
        federation = self._by_digest.get(caller.federation)
        if federation is not None and federation.run is not None:
            federation.run.server.note_rejected(caller, rejection)

    async def _answer(self, caller: Caller, asked: Request) -> bytes:
        with self._counting("request"):
            return await answer(self.methods(), caller, asked)

    @contextlib.contextmanager
    def _counting(self, kind: str) -> Iterator[None]:
        try:
            yield
        except (Rejected, PeerError):
            self.refused[kind] += 1
            raise

    def _federation_of(self, caller: Caller) -> HostedFederation:
        if caller.federation not in self._by_digest:
            self.refresh()
        found = self._by_digest.get(caller.federation)
        if found is None:
            message = (
                "no federation with these participants is served here; names, roles and identity keys in "
                "[[participants]] must be the same, in the same order, at all roles"
            )
            raise Rejected(RejectionReason.AGREEMENT, message)
        return found
