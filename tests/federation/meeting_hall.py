"""A coordinator in this process at which roles meet, with the folder that a standing coordinator has."""

from __future__ import annotations

import asyncio
import contextlib

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.federation.joining import invite, join
from kcagc.federation.meetings import Meetings
from kcagc.net.frames import Rejected, RejectionReason
from kcagc.net.grpc_server import Server
from kcagc.net.tls import Credentials
from kcagc.net.trial_authority import trial_authority
from kcagc.secagg.keys import Identity

SETTINGS = {"n_clusters": 3, "psi": 1}


class Hall:
    """A coordinator; `change(method, answer)` may replace what it answers, as one that does not follow the protocol."""

    def __init__(self, folder, *, name="coordinator.kcagc.internal", change=None, clock=None):
        self.folder, self.change, self.clock = folder, change, clock
        tls = folder / "tls"
        tls.mkdir(parents=True, exist_ok=True)
        if not (folder / "identity.pem").exists():
            authority = trial_authority("a coordinator")
            certificate, key = authority.issue(name, server=True)
            write_bytes(folder / "identity.pem", Identity.generate().to_pem(), mode=PRIVATE)
            write_bytes(tls / "ca.pem", authority.certificate_pem)
            write_bytes(tls / "certificate.pem", certificate)
            write_bytes(tls / "key.pem", key, mode=PRIVATE)
        self.identity = Identity.from_pem((folder / "identity.pem").read_bytes())
        files = (tls / "ca.pem", tls / "certificate.pem", tls / "key.pem")
        self.credentials = Credentials.load(*files, owner="coordinator", server=True)
        self.requests = []

    def authorities(self):
        trusted = sorted((self.folder / "tls" / "trusted").glob("*.pem"))
        return self.credentials.ca + b"".join(path.read_bytes() for path in trusted)

    @contextlib.asynccontextmanager
    async def open(self):
        """Run the server; its port is free again afterwards."""
        more = {} if self.clock is None else {"clock": self.clock}
        self.meetings = Meetings(self.folder, self.identity, self.credentials, **more)
        methods = self.meetings.methods()

        async def answer(caller, request):
            self.requests.append(request.method)
            if request.method not in methods:
                raise Rejected(RejectionReason.MISBEHAVIOUR, "there is no such method")
            payload = await methods[request.method](caller, request.payload)
            return payload if self.change is None else self.change(request.method, payload)

        server = Server("127.0.0.1:0", self.credentials, _no_stream, answer, self.authorities)
        await server.start()
        self.admission = self.meetings.admit(f"127.0.0.1:{server.port}")
        try:
            yield self
        finally:
            await server.stop(0)

    async def invite(self, folder, parties=("bank", "shop"), federation="fraud", settings=SETTINGS):
        code, _ = await invite(self.admission, federation, list(parties), folder, settings=settings, hours=1.0)
        return code


async def _no_stream(stream):
    raise Rejected(RejectionReason.SESSION, "no session runs here")


async def all_join(code, folders):
    """Let all parties join at the same time; return what each of them gets, an error included."""
    return await asyncio.gather(*(join(code, name, folder) for name, folder in folders.items()), return_exceptions=True)
