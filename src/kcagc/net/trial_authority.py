"""An authority for trials, which signs a certificate for every role and is then forgotten."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcagc.errors import ParameterError
from kcagc.net.tls import day, is_ip, key_pem

CERTIFICATE_DAYS = 365
# Longer than a certificate, so that what runs out first is what names an organisation; no longer than that, because the
# authority's key is thrown away and nothing could be renewed with it.
AUTHORITY_DAYS = 2 * CERTIFICATE_DAYS

_SLOW_CLOCKS = timedelta(hours=1)
_LONGEST_NAME = 64  # of the common name, which repeats it for people who read certificates
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)", re.IGNORECASE)


def trial_authority(name: str) -> Authority:
    """Make a fresh authority for a trial. Whoever holds it can speak for everybody: let go of it once all are served.

    Its key is never written anywhere. Real use takes certificates from an authority that the organisations agreed on.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject("authority", name)
    now = datetime.now(UTC)
    builder = _certificate(subject, subject, key.public_key(), now, now + timedelta(days=AUTHORITY_DAYS))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(authority=True), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


@dataclass(frozen=True, eq=False)
class Authority:
    """A certificate that everybody trusts, and the key that signs for it."""

    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def certificate_pem(self) -> bytes:
        """What every organisation puts into its `ca` file."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        tls_name: str,
        *,
        server: bool = False,
        client: bool = False,
        days: float = CERTIFICATE_DAYS,
        start: datetime | None = None,
    ) -> tuple[bytes, bytes]:
        """Give a new key and its certificate for this name, as PEM: the certificate, then the key.

        `server` is for who listens, `client` for who connects. It is valid for `days` from `start`, which is now.
        """
        if not (server or client):
            raise ParameterError(f"{tls_name}: a certificate is for a server, a client or both: set one of them")
        labels = tls_name.split(".")
        if len(tls_name) > _LONGEST_NAME or is_ip(tls_name) or not all(_LABEL.fullmatch(label) for label in labels):
            raise ParameterError(
                f"tls_name: {tls_name!r} is not a host name: use letters, digits, '-' and '.', at most {_LONGEST_NAME}"
            )
        start = start or datetime.now(UTC)
        end = start + timedelta(days=days)
        if days <= 0 or end > self.certificate.not_valid_after_utc:
            raise ParameterError(
                f"days: must be above 0 and end by {day(self.certificate.not_valid_after_utc)}, not {days}"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(_subject("tls_name", tls_name), self.certificate.subject, key.public_key(), start, end)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(tls_name.lower())]), critical=False)
        builder = builder.add_extension(issuer, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM), key_pem(key)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    builder = builder.not_valid_before(start - _SLOW_CLOCKS).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _subject(parameter: str, name: str) -> x509.Name:
    if not 0 < len(name) <= _LONGEST_NAME:
        raise ParameterError(f"{parameter}: the name must have 1 to {_LONGEST_NAME} characters, not {len(name)}")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
