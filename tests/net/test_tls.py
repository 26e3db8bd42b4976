"""Certificates: the trial authority issues valid ones, and errors name every invalid file and its cause."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import ParameterError
from kcagc.net.tls import Credentials, names_in
from kcagc.net.trial_authority import AUTHORITY_DAYS, CERTIFICATE_DAYS, trial_authority

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
AUTHORITY = trial_authority("trial of bank and shop")
CERTIFICATE, KEY = AUTHORITY.issue("bank.example", client=True)


def parsed(pem):
    return x509.load_pem_x509_certificate(pem)


def named(common_name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def made(name, issuer=None, *, key=None, ca=False, san=True, path_length=None, ends=NOW + 9 * DAY):
    """A certificate and its key as somebody else's tools may make them; `issuer` is such a pair, or it signs itself."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    above, signs = issuer or (None, key)
    builder = x509.CertificateBuilder(above.subject if above else named(name), named(name), key.public_key(), 7)
    builder = builder.not_valid_before(NOW - 20 * DAY).not_valid_after(ends)
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
    elif san:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    without = isinstance(signs, ed25519.Ed25519PrivateKey)
    return builder.sign(signs, None if without else hashes.SHA256()), key


def pem(*certificates):
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def key_pem(key, password=None):
    hidden = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)


@pytest.fixture
def load(tmp_path):
    """Write the three files and load them; None leaves a file out."""

    def load(ca=AUTHORITY.certificate_pem, certificate=CERTIFICATE, key=KEY, **options):
        paths = [tmp_path / name for name in ("ca.pem", "tls.pem", "tls.key")]
        for path, content in zip(paths, (ca, certificate, key), strict=True):
            if content is not None:
                path.write_bytes(content)
                path.chmod(0o600)
        return Credentials.load(*paths, owner="bank", **options)

    return load


def refused(load, file, words, **files):
    """It is refused, as the parameter that it is, and the message names whose file it is, which, and why."""
    with pytest.raises(ParameterError, match=words) as caught:
        load(**files)
    message = str(caught.value)
    assert message.startswith("bank: ")
    assert message.split(": ")[1].endswith(file)
    assert "-----BEGIN PRIVATE" not in message.replace("(-----BEGIN PRIVATE KEY-----)", "")
    assert caught.value.exit_code == 2
    return message


# ---- what the trial authority makes


@pytest.mark.parametrize(("server", "client"), [(True, False), (False, True), (True, True)])
def test_issued_certificates_pass_web_pki_rules_for_their_use_and_no_other(server, client):
    """The library verifies by those rules, which are stricter than those of private authorities."""
    certificate = parsed(AUTHORITY.issue("agg.example", server=server, client=client)[0])
    builder = verification.PolicyBuilder().store(verification.Store([AUTHORITY.certificate]))

    def stands(verifier):
        try:
            verifier.verify(certificate, [])
        except verification.VerificationError:
            return False
        return True

    assert stands(builder.build_server_verifier(x509.DNSName("agg.example"))) == server
    assert stands(builder.build_client_verifier()) == client
    assert not stands(builder.build_server_verifier(x509.DNSName("other.example")))


def test_serial_numbers_and_keys_are_unique():
    made = [AUTHORITY.issue("bank.example", client=True) for _ in range(20)]
    assert len({parsed(certificate).serial_number for certificate, _ in made}) == 20
    assert len({key for _, key in made}) == 20


def test_certificates_tolerate_slow_clocks_and_expire_before_their_authority():
    certificate = parsed(CERTIFICATE)
    assert timedelta(minutes=59) < NOW - certificate.not_valid_before_utc < timedelta(minutes=61)
    assert abs(certificate.not_valid_after_utc - NOW - CERTIFICATE_DAYS * DAY) < timedelta(minutes=1)
    assert abs(AUTHORITY.certificate.not_valid_after_utc - NOW - AUTHORITY_DAYS * DAY) < timedelta(minutes=1)
    assert certificate.not_valid_after_utc < AUTHORITY.certificate.not_valid_after_utc


def test_the_authority_cannot_sign_authorities_and_its_repr_has_no_key():
    basic = AUTHORITY.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    assert "key" not in repr(AUTHORITY).lower()


@pytest.mark.parametrize(
    "name",
    ["", "a b", "bänk.example", "-a.example", "a..example", "127.0.0.1", "::1", "a" * 64 + ".example", "*.x", "a\n"],
)
def test_an_invalid_host_name_gets_no_certificate(name):
    with pytest.raises(ParameterError, match="tls_name"):
        AUTHORITY.issue(name, server=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs a use"),
        ({"server": True, "days": AUTHORITY_DAYS + 1}, "days"),
        ({"server": True, "days": 0}, "days"),
    ],
)
def test_a_certificate_needs_a_use_and_ends_before_its_authority(options, words):
    with pytest.raises(ParameterError, match=words):
        AUTHORITY.issue("bank.example", **options)


@pytest.mark.parametrize("name", ["", "a" * 65])
def test_an_authority_needs_a_name_of_valid_length(name):
    with pytest.raises(ParameterError, match="authority"):
        trial_authority(name)


# ---- what an organisation loads


def test_valid_files_are_loaded_unchanged(load, tmp_path):
    loaded = load(client=True)
    assert (loaded.ca, loaded.certificate, loaded.key) == (AUTHORITY.certificate_pem, CERTIFICATE, KEY)
    assert loaded.key_file == tmp_path / "tls.key"
    assert loaded.names == {"bank.example"}
    assert loaded.days_left == CERTIFICATE_DAYS - 1  # whole ones
    assert loaded.warnings == ()


def test_the_repr_has_no_private_key(load):
    secret = KEY.decode().splitlines()[1]
    assert secret not in repr(load())
    assert "PRIVATE" not in repr(load())


def test_other_content_of_a_file_is_ignored(load):
    """Texts before a certificate, a key in the same file, other line ends, the older form of a key with its curve."""
    older = load_pem_private_key(KEY, None).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    )
    curve = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    mixed = b"Certificate:\n  Data: ...\n" + CERTIFICATE.replace(b"\n", b"\r\n") + KEY
    loaded = load(certificate=mixed, key=curve + older)
    assert (loaded.certificate, loaded.key) == (CERTIFICATE, KEY)


@pytest.mark.parametrize("file", ["ca.pem", "tls.pem", "tls.key"])
def test_a_missing_file_is_named(load, file):
    missing = {"ca.pem": "ca", "tls.pem": "certificate", "tls.key": "key"}[file]
    refused(load, file, "cannot be read .No such file", **{missing: None})


def test_a_folder_in_place_of_a_file_is_named(load, tmp_path):
    (tmp_path / "tls.key").mkdir()
    refused(load, "tls.key", "cannot be read .Is a directory", key=None)


@pytest.mark.parametrize(("file", "part"), [("ca.pem", "ca"), ("tls.pem", "certificate"), ("tls.key", "key")])
@pytest.mark.parametrize("content", [b"", b"not PEM", parsed(CERTIFICATE).public_bytes(Encoding.DER), b"\xff" * 99])
def test_what_is_not_pem_is_named(load, file, part, content):
    refused(load, file, "contains no PEM", **{part: content})


def test_swapped_files_are_named(load):
    refused(load, "tls.pem", "but a private key", certificate=KEY, key=CERTIFICATE)
    refused(load, "tls.key", "no PEM private key", key=CERTIFICATE)


def test_a_truncated_certificate_is_named(load):
    lines = CERTIFICATE.splitlines(keepends=True)
    refused(load, "tls.pem", "damaged", certificate=b"".join([*lines[:3], lines[-1]]))


def test_an_encrypted_key_is_named_with_the_remedy(load):
    hidden = key_pem(load_pem_private_key(KEY, None), b"secret")
    refused(load, "tls.key", "encrypted.*decrypt", key=hidden)


def test_a_key_of_another_certificate_is_named_with_both_files(load):
    other = AUTHORITY.issue("bank.example", client=True)[1]
    message = refused(load, "tls.key", "does not belong to the certificate", key=other)
    assert "tls.pem" in message


def test_an_expired_certificate_is_named_with_its_dates(load):
    old, key = AUTHORITY.issue("bank.example", client=True, start=NOW - 30 * DAY, days=10)
    message = refused(load, "tls.pem", "expired on", certificate=old, key=key)
    assert f"{NOW - 20 * DAY:%Y-%m-%d}" in message
    assert f"{NOW - 30 * DAY - DAY / 24:%Y-%m-%d}" in message


def test_a_certificate_that_is_not_yet_valid_is_named_with_its_dates_and_the_clock(load):
    early, key = AUTHORITY.issue("bank.example", client=True, start=NOW + 5 * DAY, days=10)
    message = refused(load, "tls.pem", "not valid before", certificate=early, key=key)
    assert f"{NOW + 5 * DAY - DAY / 24:%Y-%m-%d}" in message
    assert f"{NOW + 15 * DAY:%Y-%m-%d}" in message
    assert "clock" in message


def test_an_expired_authority_is_named_and_a_renewed_one_is_used(load):
    key = ec.generate_private_key(ec.SECP256R1())
    old, _ = made("root", ca=True, key=key, ends=NOW - DAY)
    new, _ = made("root", ca=True, key=key, ends=NOW + 5 * DAY)
    certificate, own = made("bank.example", (old, key))
    refused(load, "ca.pem", "expired on", ca=pem(old), certificate=pem(certificate), key=key_pem(own))
    loaded = load(ca=pem(old, new), certificate=pem(certificate), key=key_pem(own))
    assert loaded.days_left == 4  # of the authority, which is the first to run out


def test_a_certificate_of_another_authority_is_named_even_if_its_name_is_the_same(load):
    for name in ("somebody else", "trial of bank and shop"):
        stranger = trial_authority(name)
        message = refused(load, "tls.pem", "not signed by an authority in", ca=stranger.certificate_pem)
        assert "ca.pem" in message
        assert "CN=trial of bank and shop" in message


def test_one_of_several_authorities_is_enough(load):
    assert load(ca=trial_authority("other").certificate_pem + AUTHORITY.certificate_pem).names == {"bank.example"}


def test_intermediate_authorities_are_found_in_any_order_and_named_if_absent(load):
    root = made("root", ca=True)
    upper = made("upper", root, ca=True)
    lower = made("lower", upper, ca=True)
    own, key = made("bank.example", lower)
    trusted = pem(root[0])
    for between in ([lower[0], upper[0]], [upper[0], lower[0]]):
        loaded = load(ca=trusted, certificate=pem(own, *between), key=key_pem(key))
        assert loaded.certificate == pem(own, *between)
    assert load(ca=pem(lower[0]), certificate=pem(own), key=key_pem(key)).names == {"bank.example"}
    refused(load, "tls.pem", "CN=upper", ca=trusted, certificate=pem(own, lower[0]), key=key_pem(key))
    refused(load, "tls.pem", "CN=lower", ca=trusted, certificate=pem(own), key=key_pem(key))
    message = refused(
        load, "tls.key", "first certificate", ca=trusted, certificate=pem(lower[0], own), key=key_pem(key)
    )
    assert "first" in message.split("tls.pem")[1]


def test_an_expired_intermediate_authority_is_named(load):
    root = made("root", ca=True)
    between = made("between", root, ca=True, ends=NOW - DAY)
    own, key = made("bank.example", between)
    refused(
        load, "tls.pem", "CN=between' expired on", ca=pem(root[0]), certificate=pem(own, between[0]), key=key_pem(key)
    )


def test_a_circular_path_ends(load):
    key = ec.generate_private_key(ec.SECP256R1())
    there = made("there", ca=True, key=key)
    here = made("here", there, ca=True, key=key)
    there = made("there", here, ca=True, key=key)
    own, mine = made("bank.example", here)
    refused(load, "tls.pem", "not signed", certificate=pem(own, here[0], there[0]), key=key_pem(mine))


def test_a_certificate_of_a_party_cannot_sign_others(load):
    """Neither on the way up nor, above all, in the bundle: gRPC would trust a party there to speak for every name."""
    root = made("root", ca=True)
    party = made("shop.example", root)
    forged, key = made("bank.example", party)
    refused(load, "tls.pem", "not signed", ca=pem(root[0]), certificate=pem(forged, party[0]), key=key_pem(key))
    refused(load, "ca.pem", "CN=shop.example.*remove it", ca=pem(root[0], party[0]))
    short = made("short", ca=True, path_length=0)
    between = made("between", short, ca=True)
    own, key = made("bank.example", between)
    refused(load, "tls.pem", "not signed", ca=pem(short[0]), certificate=pem(own, between[0]), key=key_pem(key))


def test_the_certificate_of_an_authority_is_refused_for_a_role(load):
    root, key = made("bank.example", ca=True)
    san = x509.SubjectAlternativeName([x509.DNSName("bank.example")])
    builder = x509.CertificateBuilder(root.issuer, root.subject, key.public_key(), 8, NOW - DAY, NOW + DAY)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    both = builder.add_extension(san, critical=False).sign(key, hashes.SHA256())
    refused(load, "tls.pem", "certificate of an authority", ca=pem(both), certificate=pem(both), key=key_pem(key))


def test_a_common_name_does_not_replace_a_dns_name(load):
    root = made("root", ca=True)
    own, key = made("bank.example", root, san=False)
    refused(load, "tls.pem", "subjectAltName", ca=pem(root[0]), certificate=pem(own), key=key_pem(key))


WEAK = {
    "RSA of 1024 bits": lambda: rsa.generate_private_key(65537, 1024),  # noqa: S505
    "P-224": lambda: ec.generate_private_key(ec.SECP224R1()),
    "DSA": lambda: dsa.generate_private_key(2048),
    "P-521, which gRPC cannot use": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519, which gRPC cannot use": ed25519.Ed25519PrivateKey.generate,
}


@pytest.mark.parametrize("kind", WEAK)
def test_a_weak_or_unusable_key_is_named_with_the_usable_kinds(load, kind):
    root = made("root", ca=True)
    own, key = made("bank.example", root, key=WEAK[kind]())
    refused(load, "tls.pem", "P-256", ca=pem(root[0]), certificate=pem(own), key=key_pem(key))


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())])
def test_other_strong_keys_are_accepted(load, key):
    root = made("root", ca=True, key=ed25519.Ed25519PrivateKey.generate())
    own, _ = made("bank.example", root, key=key)
    assert load(ca=pem(root[0]), certificate=pem(own), key=key_pem(key)).names == {"bank.example"}


def test_a_weak_authority_is_named(load):
    root = made("root", ca=True, key=rsa.generate_private_key(65537, 1024))  # noqa: S505
    own, key = made("bank.example", root)
    refused(load, "ca.pem", "CN=root.*weak", ca=pem(root[0]), certificate=pem(own), key=key_pem(key))


def test_a_signature_with_sha_1_is_named(load):
    """The library makes none any more, so one is relabelled: the last byte of the signature's number says SHA-1."""
    root = made("root", ca=True, key=rsa.generate_private_key(65537, 2048))
    own, key = made("bank.example", root)
    sha256 = bytes.fromhex("2a864886f70d01010b")
    content = own.public_bytes(Encoding.DER).replace(sha256, sha256[:-1] + b"\x05")
    weak = x509.load_der_x509_certificate(content)
    refused(load, "tls.pem", "SHA-256", ca=pem(root[0]), certificate=pem(weak), key=key_pem(key))


def test_a_certificate_for_another_use_is_named(load):
    listens, key = AUTHORITY.issue("bank.example", server=True)
    assert load(certificate=listens, key=key, server=True).names == {"bank.example"}
    refused(load, "tls.pem", "clientAuth", certificate=listens, key=key, client=True)
    refused(load, "tls.pem", "serverAuth", server=True)


def test_a_certificate_without_extended_key_usage_allows_every_use(load):
    root = made("root", ca=True)
    own, key = made("bank.example", root)
    assert load(ca=pem(root[0]), certificate=pem(own), key=key_pem(key), server=True, client=True).warnings == ()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_key_that_other_users_can_read_causes_a_warning(load, tmp_path, mode):
    load()
    (tmp_path / "tls.key").chmod(mode)
    (warning,) = Credentials.load(
        *(tmp_path / name for name in ("ca.pem", "tls.pem", "tls.key")), owner="bank"
    ).warnings
    assert f"mode {mode:o}" in warning
    assert f"chmod 600 {tmp_path / 'tls.key'}" in warning


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
@pytest.mark.parametrize("part", ["ca", "certificate"])
def test_a_damaged_certificate_is_refused_and_never_crashes(load, part):
    """Only what an authority says of itself is held by no signature that anybody looks at."""
    whole = parsed({"ca": AUTHORITY.certificate_pem, "certificate": CERTIFICATE}[part])
    content = bytearray(whole.public_bytes(Encoding.DER))
    for bit in range(0, 8 * len(content), 3):
        content[bit // 8] ^= 1 << bit % 8
        text = base64.encodebytes(bytes(content))
        content[bit // 8] ^= 1 << bit % 8
        damaged = b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"
        names_in(damaged)
        try:
            load(**{part: damaged})
        except ParameterError:
            continue
        assert part == "ca" or parsed(damaged).tbs_certificate_bytes == whole.tbs_certificate_bytes


# ---- who a peer is


def test_the_names_of_a_peer_come_from_its_first_certificate():
    assert names_in(CERTIFICATE) == {"bank.example"}
    assert names_in(AUTHORITY.certificate_pem) == set()
    assert names_in(CERTIFICATE + AUTHORITY.issue("shop.example", client=True)[0]) == {"bank.example"}


def test_only_dns_names_count_in_lower_case():
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("Bank.Example"), x509.DNSName("b.example"), x509.RFC822Name("me@shop.example")]
    names.append(x509.UniformResourceIdentifier("https://shop.example"))
    builder = x509.CertificateBuilder(named("shop.example"), named("shop.example"), key.public_key(), 9, NOW, NOW + DAY)
    certificate = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    assert names_in(pem(certificate)) == {"bank.example", "b.example"}


@given(st.binary(max_size=200) | st.integers(0, len(CERTIFICATE)).map(lambda size: CERTIFICATE[:size]))
def test_an_invalid_certificate_has_no_names(content):
    assert names_in(content) in (set(), {"bank.example"} if content.rstrip() == CERTIFICATE.rstrip() else set())
