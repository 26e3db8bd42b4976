"""Where an aggregator is: HOST:PORT, read strictly, because gRPC takes a missing port for 443 and wraps a large one."""

from __future__ import annotations

import re

from kcagc.errors import ParameterError

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+(?:%\w+)?)\]|(?P<host>[^\s:/\[\]\0]+)):(?P<port>[0-9]{1,5})")


def split_address(address: str, where: str = "address", *, any_port: bool = False) -> tuple[str, int]:
    """Give host and port of `host:port` or `[::1]:port`; port 0, which the system picks, only where it is meant."""
    found = _ADDRESS.fullmatch(address)
    if not found or not (0 if any_port else 1) <= int(found["port"]) < 1 << 16:
        raise ParameterError(
            f"{where}: {address!r} is not an address: write host:port, as aggregator.example.org:7443 or "
            "[2001:db8::1]:7443"
        )
    return found["six"] or found["host"], int(found["port"])
