"""Certificate authorities of our own: one that signs certificates for all roles of a trial, and one for a single name.

The key of such an authority is not stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcagc.errors import ParameterError
from kcagc.net.tls import is_ip, key_pem, time_text

CERTIFICATE_DAYS = 365
# Longer than a certificate, so that the certificate of an organisation expires first. No longer than that, because the
# authority's key is not stored and cannot renew anything.
AUTHORITY_DAYS = 2 * CERTIFICATE_DAYS

_CLOCK_SKEW = timedelta(hours=1)
_MAX_NAME = 64  # characters of the common name, which repeats the DNS name for people
_BAD_EXTENSIONS = (x509.DuplicateExtension, x509.ExtensionNotFound)
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)", re.IGNORECASE)


def trial_authority(name: str, days: float = AUTHORITY_DAYS) -> Authority:
    """Create an authority for a trial; discard it after it has issued all certificates.

    Its key can issue a certificate for every role and is never written to a file. In production, use certificates of
    an authority that the organisations agreed on.
    """
    return _authority(name, ec.generate_private_key(ec.SECP256R1()), days=days)


def authority_for(tls_name: str, key: ec.EllipticCurvePrivateKey | None = None) -> Authority:
    """Create an authority that can issue certificates for this DNS name only; without `key` it draws a new one.

    Every TLS library enforces the limit, so other roles can trust the authority without trusting its owner.
    """
    return _authority(_authority_name(tls_name), key or ec.generate_private_key(ec.SECP256R1()), tls_name.lower())


def limited_to(authority_pem: bytes, tls_name: str) -> bool:
    """Return whether a PEM text is one authority as `authority_for` makes it for this DNS name."""
    try:
        (found,) = x509.load_pem_x509_certificates(authority_pem)
        basic = found.extensions.get_extension_for_class(x509.BasicConstraints).value
        limits = found.extensions.get_extension_for_class(x509.NameConstraints)
        found.verify_directly_issued_by(found)
        key = found.public_key()
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion, *_BAD_EXTENSIONS):
        return False
    return (
        found.public_bytes(Encoding.PEM) == authority_pem  # without any other text
        and basic == x509.BasicConstraints(ca=True, path_length=0)
        and limits.critical
        and limits.value == _only(tls_name.lower())
        and found.subject == _subject("authority", _authority_name(tls_name))
        and isinstance(key, ec.EllipticCurvePublicKey)
        and isinstance(key.curve, ec.SECP256R1)
    )


def _authority_name(tls_name: str) -> str:
    # Not the name in the certificate, which would then seem to be signed by itself.
    return f"CA {tls_name.lower()}"


def _only(tls_name: str) -> x509.NameConstraints:
    return x509.NameConstraints(permitted_subtrees=[x509.DNSName(tls_name)], excluded_subtrees=None)


def _authority(
    name: str, key: ec.EllipticCurvePrivateKey, tls_name: str | None = None, days: float = AUTHORITY_DAYS
) -> Authority:
    subject = _subject("authority", name)
    now = datetime.now(UTC)
    builder = _certificate(subject, subject, key.public_key(), now, now + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(authority=True), critical=True)
    if tls_name is not None:
        builder = builder.add_extension(_only(tls_name), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


@dataclass(frozen=True, eq=False)
class Authority:
    """The certificate of an authority and its private key."""

    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM, for the `ca` file of every organisation."""
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
        """Return a new certificate for this DNS name, and its private key, as PEM.

        `server` allows its use by the role that listens, `client` by a role that connects. It is valid for `days` from
        `start` (default: now).
        """
        if not (server or client):
            raise ParameterError(f"{tls_name}: a certificate needs a use: set server, client or both")
        labels = tls_name.split(".")
        if len(tls_name) > _MAX_NAME or is_ip(tls_name) or not all(_LABEL.fullmatch(label) for label in labels):
            raise ParameterError(
                f"tls_name: invalid host name {tls_name!r}: use letters, digits, '-' and '.', at most {_MAX_NAME}"
            )
        start = start or datetime.now(UTC)
        end = start + timedelta(days=days)
        if days <= 0 or end > self.certificate.not_valid_after_utc:
            raise ParameterError(
                f"days: must be above 0 and end by {time_text(self.certificate.not_valid_after_utc)}, not {days}"
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
    builder = builder.not_valid_before(start - _CLOCK_SKEW).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _subject(parameter: str, name: str) -> x509.Name:
    if not 0 < len(name) <= _MAX_NAME:
        raise ParameterError(f"{parameter}: the name must have 1 to {_MAX_NAME} characters, not {len(name)}")
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
