"""The folder of a standing coordinator: its identity key, its TLS files, its federations and the records of their runs.

identity.pem        the private identity key
tls/                certificate.pem, key.pem, the authority ca.pem that signed it, and more authorities in trusted/
admission.txt       the code with which an operator can found a federation here, and meetings/ that are not over
federations/NAME/   kcagc.toml of the coordinator in this federation, its journal, and runs/0001, runs/0002, ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.deploy.folders import CONFIG, tls_name
from kcagc.errors import ParameterError
from kcagc.federation.codes import fingerprint
from kcagc.net.tls import Credentials
from kcagc.net.trial_authority import trial_authority
from kcagc.secagg.keys import Identity

_DAYS = 3650  # of the certificate, which proves no identity: the identity key does
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


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
        found = sorted((self.path / "federations").glob(f"*/{CONFIG}"))
        return {path.parent.name: path for path in found if _NAME.fullmatch(path.parent.name)}

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
