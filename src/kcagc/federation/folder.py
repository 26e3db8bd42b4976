"""The folder of a standing coordinator: its identity key, its TLS files, its federations and the records of their runs.

identity.pem        the private identity key
tls/                certificate.pem, key.pem, the authority ca.pem that signed it, and more authorities in trusted/
admission.txt       the code with which an operator can found a federation here, and meetings/ that are not over
federations/NAME/   kcagc.toml of the coordinator in this federation, its journal, and runs/0001, runs/0002, ...
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.deploy.folders import CONFIG, tls_name
from kcagc.errors import ParameterError, SessionError
from kcagc.federation.codes import fingerprint
from kcagc.net.tls import Credentials
from kcagc.net.trial_authority import trial_authority
from kcagc.secagg.keys import Identity

_DAYS = 3650  # of the certificate, which proves no identity: the identity key does
_LOCK = "serve.lock"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


Stamp = tuple[tuple[str, int, int], ...]  # of files: the path of each, when it changed, and its size


def stamp_of(files: Iterable[Path]) -> Stamp:
    """Return the stamp of the files that exist."""
    found = []
    for path in files:
        with contextlib.suppress(OSError):
            state = path.stat()
            found.append((str(path), state.st_mtime_ns, state.st_size))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class StandingFolder:
    """The folder, with its keys."""

    path: Path
    identity: Identity
    credentials: Credentials

    @classmethod
    def open(cls, path: Path) -> StandingFolder:
        """Read the keys of a folder; make the folder and its keys if there are none."""
        key, tls = path / "identity.pem", path / "tls"
        try:
            for made in (path, tls, path / "federations"):
                made.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not key.exists():
                write_bytes(key, Identity.generate().to_pem(), mode=PRIVATE)
            identity = Identity.from_pem(key.read_bytes())
        except OSError as error:
            raise ParameterError(f"{error.filename or path}: {error.strerror or error}") from error
        except (ValueError, TypeError) as error:
            raise ParameterError(f"{key}: cannot be used as an identity key: {error}") from error
        if not (tls / "certificate.pem").exists():
            _make_certificate(tls, standing_name(identity))
        credentials = Credentials.load(
            tls / "ca.pem", tls / "certificate.pem", tls / "key.pem", owner=str(path), server=True
        )
        return cls(path, identity, credentials)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the identity key, which two people can compare over the telephone."""
        return fingerprint(self.identity.public)

    @property
    def tls_name(self) -> str:
        """The name in the certificate of the coordinator."""
        return min(self.credentials.names)

    def configurations(self) -> dict[str, Path]:
        """Return the configuration of every federation, by its name."""
        return configurations(self.path)

    def federation(self, name: str) -> Path:
        """Return the folder of a federation, which may not exist yet."""
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"invalid name of a federation {name!r}: use 1 to 32 lower-case letters, digits and hyphens, and no "
                "hyphen at either end"
            )
        return self.path / "federations" / name

    def authority_files(self) -> list[Path]:
        """Return the files with the authorities that the coordinator trusts besides those of its federations."""
        tls = self.path / "tls"
        return [tls / "ca.pem", *sorted((tls / "trusted").glob("*.pem"))]


def configurations(folder: Path) -> dict[str, Path]:
    """Return the coordinator's configuration in every federation of a folder, by the name of the federation."""
    found = sorted((folder / "federations").glob(f"*/{CONFIG}"))
    return {path.parent.name: path for path in found if _NAME.fullmatch(path.parent.name)}


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Hold a folder inside this context; raise an error if another process holds it."""
    with (folder / _LOCK).open("w") as file:
        if not _locked(file):
            raise SessionError(f"{folder}: another process serves this folder")
        yield


def is_in_use(folder: Path) -> bool:
    """Return whether a process serves a folder."""
    try:
        with (folder / _LOCK).open() as file:
            return not _locked(file)
    except OSError:
        return False


def _locked(file: TextIO) -> bool:
    """Lock a file until it is closed; return whether that was possible. The lock ends with the process, too."""
    try:
        import fcntl  # noqa: PLC0415 - not on every system; without it, the journals alone are locked
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def standing_name(identity: Identity) -> str:
    """Return the TLS name of a standing coordinator: no two have the same."""
    return tls_name(f"standing-{identity.public.hex()[:16]}")


def _make_certificate(tls: Path, name: str) -> None:
    """Write a certificate; the key of the authority that signs it is not kept, so it issues no other one."""
    authority = trial_authority("kcagc standing coordinator", days=_DAYS + 1)
    certificate, key = authority.issue(name, server=True, days=_DAYS)
    write_bytes(tls / "ca.pem", authority.certificate_pem)
    write_bytes(tls / "key.pem", key, mode=PRIVATE)
    write_bytes(tls / "certificate.pem", certificate)
