"""Addresses and TLS files of a role, read strictly, and the names in the certificate of a peer.

gRPC reports most mistakes in these badly: a key that does not match its certificate as "failed to bind", an expired
certificate as "socket closed", and a missing port not at all. `Credentials.load` names the file and the remedy.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from kcagc.errors import ParameterError

E = TypeVar("E", bound=x509.ExtensionType)

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+(?:%\w+)?)\]|(?P<host>[\w.-]+)):(?P<port>[0-9]{1,5})")
# Everything that the library raises for an invalid certificate.
_INVALID = (ValueError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension)
_KEY_ADVICE = "use ECDSA on P-256 or P-384, or RSA with 2048 bits or more"


def split_address(address: str, parameter: str = "address", *, any_port: bool = False) -> tuple[str, int]:
    """Return host and port of `host:port` or `[::1]:port`; `any_port` also allows port 0, which the system replaces.

    gRPC would replace a missing port by 443 and wrap a port above 65535.
    """
    found = _ADDRESS.fullmatch(address)
    if not found or not (0 if any_port else 1) <= int(found["port"]) < 1 << 16:
        raise ParameterError(
            f"{parameter}: invalid address {address!r}: write host:port, for example aggregator.example.org:7443 or "
            "[2001:db8::1]:7443"
        )
    return found["six"] or found["host"], int(found["port"])


@dataclass(frozen=True)
class Credentials:
    """The checked TLS files of a role; the bytes are PEM for gRPC."""

    ca_file: Path
    certificate_file: Path
    key_file: Path
    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)  # followed by the intermediate certificates
    key: bytes = field(repr=False)
    names: frozenset[str]
    expires: datetime  # the earliest date on the path from the certificate to the authority
    warnings: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, Path, Path]:
        """The files that it was read from."""
        return self.ca_file, self.certificate_file, self.key_file

    @property
    def days_left(self) -> int:
        """Whole days until the first certificate of the path expires; negative after that."""
        return (self.expires - datetime.now(UTC)).days

    @classmethod
    def load(
        cls,
        ca: str | Path,
        certificate: str | Path,
        key: str | Path,
        *,
        owner: str,
        server: bool = False,
        client: bool = False,
    ) -> Credentials:
        """Read the three files of `owner`; raise `ParameterError` with the file, the cause and the remedy.

        With `server` or `client` the certificate must allow that use.
        """
        files = _Files(owner, Path(ca), Path(certificate), Path(key))
        authorities = files.authorities()
        own, *intermediates = files.certificates(files.certificate)
        private = files.private_key([own, *intermediates])
        names = files.names(own)
        files.require_uses(own, server=server, client=client)
        path = files.path_to_authority(own, intermediates, authorities)
        return cls(
            files.ca,
            files.certificate,
            files.key,
            # Encoded again, without any other content of the files (texts, keys).
            ca=b"".join(each.public_bytes(Encoding.PEM) for each in authorities),
            certificate=b"".join(each.public_bytes(Encoding.PEM) for each in [own, *intermediates]),
            key=key_pem(private),
            names=frozenset(names),
            expires=min(each.not_valid_after_utc for each in path),
            warnings=files.warnings(),
        )


@dataclass(frozen=True)
class _Files:
    """The checks of the three files; every error names the owner and the file."""

    owner: str
    ca: Path
    certificate: Path
    key: Path

    def error(self, file: Path, message: str) -> ParameterError:
        return ParameterError(f"{self.owner}: {file}: {message}")

    def read(self, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise self.error(file, f"cannot be read ({error.strerror}): check the path and its permissions") from error

    def certificates(self, file: Path) -> list[x509.Certificate]:
        content = self.read(file)
        if b"-----BEGIN CERTIFICATE-----" not in content:
            instead = "a private key, which belongs under `key`" if b"PRIVATE KEY-----" in content else "something else"
            raise self.error(file, f"contains no PEM certificate (-----BEGIN CERTIFICATE-----) but {instead}")
        try:
            found = x509.load_pem_x509_certificates(content)
            for each in found:
                _ = (each.subject, each.issuer, each.extensions)  # the library parses these on access
        except _INVALID as error:
            raise self.error(file, "contains a damaged certificate: copy the file again") from error
        return found

    def authorities(self) -> list[x509.Certificate]:
        """Read `ca`; reject certificates that are not those of authorities, because gRPC trusts every one in the file.

        A party whose own certificate were in the file could issue certificates for the names of all other roles.
        """
        found = self.certificates(self.ca)
        for each in found:
            if not _is_authority(each):
                raise self.error(
                    self.ca,
                    f"{_label(each)} is not the certificate of an authority: remove it, "
                    "or its owner could issue certificates for every role",
                )
        return found

    def private_key(self, chain: Sequence[x509.Certificate]) -> PrivateKeyTypes:
        content = self.read(self.key)
        try:
            private = load_pem_private_key(content, password=None)
        except TypeError as error:  # the library raises it for a missing password
            raise self.error(
                self.key,
                "is encrypted, and kcagc cannot ask for a password: decrypt it first (openssl pkey -in … -out …)",
            ) from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise self.error(self.key, "contains no PEM private key (-----BEGIN PRIVATE KEY-----)") from error
        public = private.public_key()
        if public != _key_of(chain[0]):
            later = any(public == _key_of(each) for each in chain[1:])
            advice = "put the certificate of this key first, and intermediate certificates after it"
            raise self.error(
                self.key,
                f"does not belong to the {'first ' * later}certificate in {self.certificate}: "
                + (advice if later else "use the key and the certificate of the same request"),
            )
        return private

    def names(self, own: x509.Certificate) -> set[str]:
        names = _dns_names(own)
        if not names:
            raise self.error(
                self.certificate,
                "has no DNS name under subjectAltName, by which other roles identify it (a common name is not "
                "enough): request a certificate with a DNS name",
            )
        return names

    def require_uses(self, own: x509.Certificate, *, server: bool, client: bool) -> None:
        if _is_authority(own):
            raise self.error(
                self.certificate,
                "is the certificate of an authority, whose key can issue certificates for every role: let the "
                "authority issue a certificate for this role",
            )
        if not _usable(_key_of(own)):
            raise self.error(self.certificate, f"has a key that is weak or that gRPC cannot use: {_KEY_ADVICE}")
        allowed = _extension(own, x509.ExtendedKeyUsage)
        if allowed is None:  # without the extension every use is allowed
            return
        for wanted, use, name in (
            (server, ExtendedKeyUsageOID.SERVER_AUTH, "serverAuth"),
            (client, ExtendedKeyUsageOID.CLIENT_AUTH, "clientAuth"),
        ):
            if wanted and use not in allowed:
                raise self.error(
                    self.certificate, f"does not allow this use: request one with {name} under extendedKeyUsage"
                )

    def path_to_authority(
        self, own: x509.Certificate, intermediates: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
    ) -> list[x509.Certificate]:
        """Return the certificates from `own` up to an authority in `ca`, each signed by the next.

        `cryptography.x509.verification` does not replace this walk, even with `ExtensionPolicy.permit_all()`: it
        rejects authorities with Ed25519 keys, which gRPC accepts, and its errors name the failing certificate and the
        cause only in their text. Security does not depend on this path: every peer verifies the certificate itself.
        """
        path = [own]
        self.require_sound(self.certificate, own)
        while not (top := [each for each in authorities if _signed(path, each)]):
            step = [each for each in intermediates if each not in path and _signed(path, each)]
            if not step:
                raise self.error(
                    self.certificate,
                    f"{_label(path[-1])} is not signed by an authority in {self.ca} but by "
                    f"{path[-1].issuer.rfc4514_string()!r}: add that authority there or, if it is intermediate, here",
                )
            path.append(step[0])
            self.require_sound(self.certificate, step[0])
        # A file can contain an authority twice, before and after its renewal with the same key.
        path.append(max(top, key=lambda each: each.not_valid_after_utc))
        self.require_sound(self.ca, path[-1])
        return path

    def require_sound(self, file: Path, certificate: x509.Certificate) -> None:
        now, start, end = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
        problem = ""
        if now > end:
            problem = f"expired on {time_text(end)} (valid from {time_text(start)}): renew it"
        elif now < start:
            problem = f"is not valid before {time_text(start)} (until {time_text(end)}): wait, or correct the clock of "
            problem += f"this machine, which shows {time_text(now)}"
        # TLS does not verify the signature of an authority in `ca` on itself.
        elif _weak(_key_of(certificate)) or (file != self.ca and _signed_weakly(certificate)):
            problem = f"has a weak key or signature: {_KEY_ADVICE}, signed with SHA-256"
        if problem:
            raise self.error(file, f"{_label(certificate)} {problem}")

    def warnings(self) -> tuple[str, ...]:
        mode = self.key.stat().st_mode & 0o777
        if os.name != "posix" or not mode & 0o077:  # other systems store permissions elsewhere
            return ()
        return (
            f"{self.owner}: {self.key}: other users of this machine can read this key (mode {mode:o}): "
            f"chmod 600 {self.key}",
        )


# Certificates of peers.


def digest_of(certificate_pem: bytes) -> bytes:
    """Return the SHA-256 of the first certificate in a PEM text; empty bytes if there is none."""
    try:
        return x509.load_pem_x509_certificate(certificate_pem).fingerprint(hashes.SHA256())
    except _INVALID:
        return b""


def names_in(certificate_pem: bytes) -> set[str]:
    """Return the DNS names, in lower case, of a peer's certificate; none for an invalid one.

    The common name does not count.
    """
    try:
        return _dns_names(x509.load_pem_x509_certificate(certificate_pem))
    except _INVALID:
        return set()


def _dns_names(certificate: x509.Certificate) -> set[str]:
    found = _extension(certificate, x509.SubjectAlternativeName)
    return set() if found is None else {name.lower() for name in found.get_values_for_type(x509.DNSName)}


# Properties of certificates and keys.


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, *_INVALID):
        return None


def _is_authority(certificate: x509.Certificate) -> bool:
    return _path_length(certificate) >= 0


def _path_length(certificate: x509.Certificate) -> float:
    """Return how many authorities may follow below this one; -1 if it is not an authority."""
    basic = _extension(certificate, x509.BasicConstraints)
    if basic is None or not basic.ca:
        return -1
    return float("inf") if basic.path_length is None else basic.path_length


def _signed(path: Sequence[x509.Certificate], issuer: x509.Certificate) -> bool:
    """Return whether `issuer` signed the last certificate of the path and is allowed to."""
    if _path_length(issuer) < len(path) - 1:
        return False
    try:
        path[-1].verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, *_INVALID):
        return False
    return True


def _key_of(certificate: x509.Certificate) -> object:
    try:
        return certificate.public_key()
    except _INVALID:  # a kind of key that the library does not know
        return None


def _usable(key: object) -> bool:
    """Return whether gRPC can use a key; with Ed25519 or P-521 keys it starts, and then fails every handshake."""
    return not _weak(key) and (
        isinstance(key, rsa.RSAPublicKey)
        or (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1))
    )


def _weak(key: object) -> bool:
    return (isinstance(key, rsa.RSAPublicKey) and key.key_size < 2048) or (
        isinstance(key, ec.EllipticCurvePublicKey) and key.key_size < 256
    )


def _signed_weakly(certificate: x509.Certificate) -> bool:
    try:
        return isinstance(certificate.signature_hash_algorithm, hashes.MD5 | hashes.SHA1)
    except UnsupportedAlgorithm:  # the search for an issuer then fails as well
        return False


def is_ip(name: str) -> bool:
    """Return whether a name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _label(certificate: x509.Certificate) -> str:
    return repr(certificate.subject.rfc4514_string() or ", ".join(sorted(_dns_names(certificate))))


def time_text(moment: datetime) -> str:
    """Return a point in time for messages."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def key_pem(key: PrivateKeyTypes) -> bytes:
    """Return an unencrypted private key as PEM for gRPC."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
