"""What an operator's tools read: `/metrics` in the text format of Prometheus, and `/healthz`, over plain HTTP.

There is no password: the address belongs on the loopback interface or in a network of the operator alone. The answers
show names of federations, states and counts, and nothing about data.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kcagc import __version__
from kcagc.errors import KcagcError
from kcagc.federation.service import Service
from kcagc.net.tls import split_address

_MAX_REQUEST = 4096  # bytes of a request with its headers
_MAX_CONNECTIONS = 16
_PATIENCE = 5.0  # seconds for a request to arrive and an answer to leave
_TEXT, _JSON = "text/plain; version=0.0.4; charset=utf-8", "application/json"
_STATUS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed"}


@dataclass(frozen=True)
class Metric:
    """One metric with its samples: labels and value of each."""

    name: str
    kind: str  # "counter" or "gauge"
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            listed = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{f'{{{listed}}}' if listed else ''} {value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def metrics(service: Service) -> list[Metric]:
    """Return the metrics of a service now."""
    hosted = service.federations.values()

    def each(values: Iterator[tuple[str, float]]) -> tuple[tuple[Mapping[str, str], float], ...]:
        return tuple(({"federation": name}, value) for name, value in values)

    ended = tuple(
        ({"federation": one.name, "state": state}, float(number))
        for one in hosted
        for state, number in sorted(one.ended.items())
    )
    connected = each((one.name, 0 if one.run is None else len(one.run.server.connected)) for one in hosted)
    all_refused = {"connection": service.refused_connections, **service.refused}
    refused = tuple(({"kind": kind}, float(number)) for kind, number in sorted(all_refused.items()))
    return [
        Metric("kcagc_info", "gauge", "The version of kcagc.", (({"version": __version__}, 1.0),)),
        Metric("kcagc_federations", "gauge", "Federations that are served.", (({}, len(hosted)),)),
        Metric(
            "kcagc_federation_problems",
            "gauge",
            "Federations in the folder that cannot be served.",
            (({}, len(service.problems)),),
        ),
        Metric("kcagc_runs_ended_total", "counter", "Runs that ended since the process started.", ended),
        Metric(
            "kcagc_run_open", "gauge", "Whether a run is open.", each((one.name, one.run is not None) for one in hosted)
        ),
        Metric(
            "kcagc_run_seconds",
            "gauge",
            "Duration of the last run that ended.",
            each((one.name, one.last_seconds) for one in hosted),
        ),
        Metric("kcagc_parties_connected", "gauge", "Parties that are connected.", connected),
        Metric(
            "kcagc_parties_waiting",
            "gauge",
            "Parties that wait for the next run.",
            each((one.name, sum(number > 0 for number in one.waiting.values())) for one in hosted),
        ),
        Metric("kcagc_refused_total", "counter", "Connections, streams and requests that were refused.", refused),
        *_of_process(),
    ]


def _of_process() -> Iterator[Metric]:
    """Yield memory and open files of this process, where the system shows them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory = float(pages * os.sysconf("SC_PAGE_SIZE"))
        yield Metric("process_resident_memory_bytes", "gauge", "Resident memory in bytes.", (({}, memory),))
        number = float(sum(1 for _ in Path("/proc/self/fd").iterdir()))
        yield Metric("process_open_fds", "gauge", "Open file descriptors.", (({}, number),))


def metrics_text(service: Service) -> str:
    """Return all metrics in the text format."""
    return "".join(f"{line}\n" for metric in metrics(service) for line in metric.lines())


def health(service: Service) -> str:
    """Return the health as JSON: "degraded" if a federation in the folder cannot be served."""
    found = {
        "status": "degraded" if service.problems else "ok",
        "version": __version__,
        "federations": sorted(service.federations.keys() - service.problems.keys()),
        "problems": service.problems,
    }
    return json.dumps(found) + "\n"


class Observer:
    """The HTTP server for an operator's tools."""

    def __init__(self, service: Service, address: str) -> None:
        self._service, self._address = service, split_address(address, "--metrics", any_port=True)
        self._connections = 0
        self.port = 0

    async def start(self) -> asyncio.Server:
        """Accept requests from now on; return the server, which the caller closes."""
        host, port = self._address
        try:
            server = await asyncio.start_server(self._serve, host, port, limit=_MAX_REQUEST)
        except OSError as error:
            raise KcagcError(f"--metrics: cannot listen on {host}:{port}: {error.strerror or error}") from error
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _MAX_CONNECTIONS:
                async with asyncio.timeout(_PATIENCE):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(request))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        status, kind, body = 404, _TEXT, "not found: /metrics or /healthz\n"
        if method not in (b"GET", b"HEAD"):
            status, body = 405, "only GET\n"
        elif path == b"/metrics":
            status, body = 200, metrics_text(self._service)
        elif path == b"/healthz":
            status, kind, body = 200, _JSON, health(self._service)
        content = body.encode()
        head = (
            f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == b"HEAD" else content)
