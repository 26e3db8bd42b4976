"""Certificates say who may connect: the files an organisation brings, and the names in a peer's.

Whatever is wrong with a file is said here and by name, because gRPC does not say it: where a key does not match, it
"failed to bind"; where a certificate ran out, there is a "socket closed".
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from kcagc.errors import ParameterError

# All that the library raises for a certificate that is not quite one.
_UNREADABLE = (ValueError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension)
_ADVICE = "use ECDSA on P-256 or P-384, or RSA with 2048 bits or more"


@dataclass(frozen=True)
class Credentials:
    """What an organisation shows and whom it trusts, read and checked; the bytes are PEM as gRPC takes them."""

    ca_file: Path
    certificate_file: Path
    key_file: Path
    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)  # with the certificates between it and the authority
    key: bytes = field(repr=False)
    names: frozenset[str]
    expires: datetime  # of the first to run out, from the certificate up to the authority
    warnings: tuple[str, ...] = ()

    @property
    def days_left(self) -> int:
        """Whole days until it runs out; below zero when it has."""
        return (self.expires - datetime.now(UTC)).days

    @classmethod
    def load(
        cls,
        ca: str | Path,
        certificate: str | Path,
        key: str | Path,
        *,
        who: str,
        server: bool = False,
        client: bool = False,
    ) -> Credentials:
        """Read the three files, or say which of them cannot be used and why; `who` is whose they are, for the message.

        With `server` or `client` the certificate must allow that use.
        """
        files = _Files(who, Path(ca), Path(certificate), Path(key))
        authorities = files.authorities()
        own, *between = files.certificates(files.certificate)
        private = files.private_key([own, *between])
        names = files.names(own)
        files.require_uses(own, server=server, client=client)
        path = files.path_to_authority(own, between, authorities)
        return cls(
            files.ca,
            files.certificate,
            files.key,
            # written anew: what else a file has in it (a text, another key) is nobody's business
            ca=b"".join(each.public_bytes(Encoding.PEM) for each in authorities),
            certificate=b"".join(each.public_bytes(Encoding.PEM) for each in [own, *between]),
            key=key_pem(private),
            names=frozenset(names),
            expires=min(each.not_valid_after_utc for each in path),
            warnings=files.warnings(),
        )


@dataclass(frozen=True)
class _Files:
    """The checks, each of which raises an error that begins with the file's name."""

    who: str
    ca: Path
    certificate: Path
    key: Path

    def wrong(self, file: Path, what: str) -> ParameterError:
        return ParameterError(f"{self.who}: {file}: {what}")

    def read(self, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise self.wrong(
                file, f"cannot be read ({error.strerror}): name a file that is there and readable"
            ) from error

    def certificates(self, file: Path) -> list[x509.Certificate]:
        content = self.read(file)
        if b"-----BEGIN CERTIFICATE-----" not in content:
            instead = "a private key, which belongs under `key`" if b"PRIVATE KEY-----" in content else "something else"
            raise self.wrong(file, f"holds no certificate as PEM (-----BEGIN CERTIFICATE-----) but {instead}")
        try:
            found = x509.load_pem_x509_certificates(content)
            for each in found:
                _ = (each.subject, each.issuer, each.extensions)  # which are read only when asked for
        except _UNREADABLE as error:
            raise self.wrong(file, "holds a certificate that is damaged: copy the file again") from error
        return found

    def authorities(self) -> list[x509.Certificate]:
        """Let nothing but authorities be trusted: gRPC takes whatever stands in this file for one.

        With a party's own certificate in it, that party could make certificates for the names of all others.
        """
        found = self.certificates(self.ca)
        for each in found:
            if not _is_authority(each):
                raise self.wrong(
                    self.ca,
                    f"{_called(each)} is not the certificate of an authority: leave it out, "
                    "or its owner could make certificates for everybody's name",
                )
        return found

    def private_key(self, chain: Sequence[x509.Certificate]) -> PrivateKeyTypes:
        content = self.read(self.key)
        try:
            private = load_pem_private_key(content, password=None)
        except TypeError as error:  # the library's word for a missing password
            raise self.wrong(
                self.key,
                "is encrypted, and nobody is there to type a password: decrypt it first (openssl pkey -in … -out …)",
            ) from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise self.wrong(self.key, "holds no private key as PEM (-----BEGIN PRIVATE KEY-----)") from error
        public = private.public_key()
        if public != _key_of(chain[0]):
            later = any(public == _key_of(each) for each in chain[1:])
            advice = "put the certificate of this key first, and those between it and the authority after it"
            raise self.wrong(
                self.key,
                f"does not belong to the {'first ' * later}certificate in {self.certificate}: "
                + (advice if later else "take both from the same request"),
            )
        return private

    def names(self, own: x509.Certificate) -> set[str]:
        names = _dns_names(own)
        if not names:
            raise self.wrong(
                self.certificate,
                "has no DNS name under subjectAltName, which is how others check who it is for (a common name is not "
                "enough): have it issued with one",
            )
        return names

    def require_uses(self, own: x509.Certificate, *, server: bool, client: bool) -> None:
        if _is_authority(own):
            raise self.wrong(
                self.certificate,
                "is the certificate of an authority, whose key can speak for everybody: have it issue one for you",
            )
        if not _usable(_key_of(own)):
            raise self.wrong(self.certificate, f"its key is too weak or of a kind that gRPC cannot use: {_ADVICE}")
        try:
            allowed = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except x509.ExtensionNotFound:  # then it is good for every use
            return
        for wanted, use, name in (
            (server, ExtendedKeyUsageOID.SERVER_AUTH, "serverAuth"),
            (client, ExtendedKeyUsageOID.CLIENT_AUTH, "clientAuth"),
        ):
            if wanted and use not in allowed:
                raise self.wrong(
                    self.certificate, f"is not for this use: have it issued with {name} under extendedKeyUsage"
                )

    def path_to_authority(
        self, own: x509.Certificate, between: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
    ) -> list[x509.Certificate]:
        """Follow the signatures up to somebody in `ca`, by hand.

        The library's own verification keeps to the rules of the public web, and refuses the roots that
        `openssl req -x509` makes. Nothing rests on this path: peers walk their own.
        """
        path = [own]
        self.require_sound(self.certificate, own)
        while not (top := [each for each in authorities if _signed(path, each)]):
            step = [each for each in between if each not in path and _signed(path, each)]
            if not step:
                raise self.wrong(
                    self.certificate,
                    f"{_called(path[-1])} is not signed by an authority in {self.ca} but by "
                    f"{path[-1].issuer.rfc4514_string()!r}: add that authority there or, where it stands between, here",
                )
            path.append(step[0])
            self.require_sound(self.certificate, step[0])
        # an authority that was renewed under the same key may stand there twice
        path.append(max(top, key=lambda each: each.not_valid_after_utc))
        self.require_sound(self.ca, path[-1])
        return path

    def require_sound(self, file: Path, certificate: x509.Certificate) -> None:
        self.require_in_time(file, certificate)
        # the signature of an authority in `ca` on itself is for nobody to look at
        if _weak(_key_of(certificate)) or (file != self.ca and _signed_weakly(certificate)):
            raise self.wrong(
                file, f"{_called(certificate)} has a weak key or signature: {_ADVICE}, signed with SHA-256"
            )

    def require_in_time(self, file: Path, certificate: x509.Certificate) -> None:
        now, start, end = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if now > end:
            raise self.wrong(
                file, f"{_called(certificate)} ran out on {day(end)} (valid from {day(start)}): have it renewed"
            )
        if now < start:
            raise self.wrong(
                file,
                f"{_called(certificate)} is not valid before {day(start)} (until {day(end)}): wait, or set the clock "
                f"of this machine, which says {day(now)}",
            )

    def warnings(self) -> tuple[str, ...]:
        mode = self.key.stat().st_mode & 0o777
        if os.name != "posix" or not mode & 0o077:  # other systems keep such rights elsewhere
            return ()
        return (
            f"{self.who}: {self.key}: others on this machine may read this key (mode {mode:o}): chmod 600 {self.key}",
        )


# ---- the certificate of a peer


def digest_of(certificate_pem: bytes) -> bytes:
    """Give the SHA-256 of the first certificate in a PEM text, or nothing where there is none."""
    try:
        return x509.load_pem_x509_certificate(certificate_pem).fingerprint(hashes.SHA256())
    except _UNREADABLE:
        return b""


def names_in(certificate_pem: bytes) -> set[str]:
    """Give the names a peer may go by: the DNS names, in lower case, of the certificate it connected with.

    The common name does not count. What cannot be read names nobody.
    """
    try:
        return _dns_names(x509.load_pem_x509_certificate(certificate_pem))
    except _UNREADABLE:
        return set()


def _dns_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, *_UNREADABLE):
        return set()
    return {name.lower() for name in found.get_values_for_type(x509.DNSName)}


# ---- single facts


def _is_authority(certificate: x509.Certificate) -> bool:
    return _path_length(certificate) >= 0


def _path_length(certificate: x509.Certificate) -> float:
    """How many authorities may stand below this one, and -1 where it is none."""
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, *_UNREADABLE):
        return -1
    if not basic.ca:
        return -1
    return float("inf") if basic.path_length is None else basic.path_length


def _signed(path: Sequence[x509.Certificate], issuer: x509.Certificate) -> bool:
    """Say whether the issuer signed the last of the path, and may."""
    if _path_length(issuer) < len(path) - 1:
        return False
    try:
        path[-1].verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, *_UNREADABLE):
        return False
    return True


def _key_of(certificate: x509.Certificate) -> object:
    try:
        return certificate.public_key()
    except _UNREADABLE:  # of a kind that the library does not know
        return None


def _usable(key: object) -> bool:
    """Say whether gRPC can work with it: with Ed25519 or P-521 it starts too, and then fails every handshake."""
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
    except UnsupportedAlgorithm:  # then no signature will be found either
        return False


def is_ip(name: str) -> bool:
    """Say whether a name is a number of the network instead."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _called(certificate: x509.Certificate) -> str:
    return repr(certificate.subject.rfc4514_string() or ", ".join(sorted(_dns_names(certificate))))


def day(moment: datetime) -> str:
    """Write a moment for people."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def key_pem(key: PrivateKeyTypes) -> bytes:
    """Write an unencrypted private key as gRPC takes it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
