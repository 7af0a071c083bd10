r"""What clients are called by their certificates: the name as Java writes it, and Kafka's rules.

What Java writes was seen on OpenJDK 17: `new X500Principal(der).getName()`.
"""

import contextlib
import datetime
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from semel.access.certificate_names import MappingRules
from semel.access.distinguished_name import distinguished_name, subject_of
from semel.errors import ConfigError, ProtocolError

Attribute = x509.NameAttribute
CN, EMAIL = NameOID.COMMON_NAME, NameOID.EMAIL_ADDRESS
SHORT = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.DOMAIN_COMPONENT,
    NameOID.USER_ID,
)
"""Those that may be of any length; a country has two letters."""


def encoded(*names: Attribute[str] | Sequence[Attribute[str]]) -> bytes:
    """A name, each part of which may be of several attributes."""
    parts = [(each,) if isinstance(each, Attribute) else each for each in names]
    return x509.Name(map(x509.RelativeDistinguishedName, parts)).public_bytes()


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (
            encoded(Attribute(CN, "Ann, B=x#y"), Attribute(NameOID.ORGANIZATION_NAME, "Semel Ltd")),
            r"O=Semel Ltd,CN=Ann\, B\=x\#y",
        ),
        (encoded(Attribute(CN, " #lead  ")), r"CN=\ \#lead\ \ "),
        (encoded(Attribute(CN, 'a+b"c\\d<e>f;g')), r"CN=a\+b\"c\\d\<e\>f\;g"),
        (encoded(Attribute(CN, "é ü 漢")), "CN=é ü 漢"),
        (encoded(Attribute(CN, " ")), r"CN=\ "),
        (encoded(Attribute(CN, "nul\0x")), r"CN=nul\00x"),
        (encoded(Attribute(CN, "cr\r")), "CN=cr\\\r"),
        (encoded(Attribute(CN, "tab\t\n")), "CN=tab\t\n"),
        (encoded(Attribute(EMAIL, "a@b.c")), "1.2.840.113549.1.9.1=#16056140622e63"),
        (
            encoded(Attribute(EMAIL, "a" * 200 + "@b.c")),
            "1.2.840.113549.1.9.1=#1681cc" + "61" * 200 + "40622e63",
        ),
        (
            encoded(Attribute(NameOID.SERIAL_NUMBER, "123"), Attribute(NameOID.GIVEN_NAME, "An")),
            "2.5.4.42=#0c02416e,2.5.4.5=#1303313233",
        ),
        (
            encoded(
                Attribute(NameOID.DOMAIN_COMPONENT, "com"),
                Attribute(NameOID.USER_ID, "u1"),
                Attribute(NameOID.STREET_ADDRESS, "str"),
                Attribute(NameOID.COUNTRY_NAME, "DE"),
                Attribute(NameOID.LOCALITY_NAME, "l"),
                Attribute(NameOID.STATE_OR_PROVINCE_NAME, "s"),
            ),
            "ST=s,L=l,C=DE,STREET=str,UID=u1,DC=com",
        ),
        (
            encoded(
                (Attribute(CN, "x"), Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "y")),
            ),
            "CN=x+OU=y",
        ),
        (
            encoded(Attribute(CN, "univ", _ASN1Type.UniversalString)),
            "CN=#1c10000000750000006e0000006900000076",
        ),
        (encoded(Attribute(CN, "vis", _ASN1Type.VisibleString)), "CN=#1a03766973"),
        (encoded(Attribute(CN, "t61", _ASN1Type.T61String)), "CN=t61"),
        (encoded(Attribute(x509.ObjectIdentifier("1.2.3.4"), "odd")), "1.2.3.4=#0c036f6464"),
        (encoded(), ""),
    ],
)  # fmt: skip
def test_a_name_is_written_as_java_writes_it(subject: bytes, name: str) -> None:
    assert distinguished_name(subject) == name


LETTERS = st.characters(codec="utf-8", exclude_characters="\0\r")
ATTRIBUTES = st.builds(Attribute, st.sampled_from(SHORT), st.text(LETTERS, min_size=1, max_size=16))


@given(st.lists(st.lists(ATTRIBUTES, min_size=1, max_size=1), min_size=1, max_size=4))
def test_what_is_written_can_be_read_as_the_same_name(parts: list[list[Attribute[str]]]) -> None:
    subject = encoded(*parts)
    read = x509.Name.from_rfc4514_string(distinguished_name(subject))
    said = [(each.oid, each.value) for each in x509.Name([part[0] for part in parts])]
    assert [(each.oid, each.value) for each in read] == said


OTHERS = (EMAIL, NameOID.TITLE, NameOID.PSEUDONYM, x509.ObjectIdentifier("2.999.1.16384"))


@given(st.sampled_from(OTHERS), st.text(st.characters(max_codepoint=127), max_size=70_000))
def test_what_has_no_short_name_is_as_it_was_encoded(
    kind: x509.ObjectIdentifier, text: str
) -> None:
    subject = encoded(Attribute(kind, text, _validate=False))
    name = distinguished_name(subject)
    shown, _, value = name.partition("=#")
    assert shown == kind.dotted_string
    # It stands at the end of the name.
    assert subject.endswith(bytes.fromhex(value))
    assert bytes.fromhex(value).endswith(text.encode())
    size = len(text)
    length = bytes.fromhex(value)[1 : len(value) // 2 - size]
    if size < 128:
        assert length == bytes((size,))
    else:
        assert length[0] - 128 == len(length) - 1
        assert int.from_bytes(length[1:], "big") == size


def certificate(subject: x509.Name) -> bytes:
    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    issuer = x509.Name([Attribute(CN, "issuer")])
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), 7, day, day)
    return builder.sign(key, None).public_bytes(serialization.Encoding.DER)


SUBJECT = x509.Name([Attribute(CN, "ana"), Attribute(EMAIL, "a" * 300)])
CERTIFICATE = certificate(SUBJECT)


def test_the_subject_is_found_in_a_certificate() -> None:
    assert subject_of(CERTIFICATE) == SUBJECT.public_bytes()


@given(st.integers(0, len(CERTIFICATE) - 1), st.binary(max_size=3), st.booleans())
def test_what_is_no_certificate_is_refused_and_nothing_else(
    at: int, other: bytes, is_cut: bool
) -> None:
    broken = CERTIFICATE[:at] + other + (b"" if is_cut else CERTIFICATE[at + len(other) :])
    with contextlib.suppress(ProtocolError):
        assert isinstance(distinguished_name(subject_of(broken)), str)


# Rules: the examples of Kafka's documentation, and the facts of its own tests.

SERVICE, OFFICE = (
    "CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown",
    "CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown",
)
DOCUMENTED = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
DOCUMENTED += "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
DOCUMENTED += "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
TESTED = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
TESTED += "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
TESTED += "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
TESTED += "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
WITH_COMMA = r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT"


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        (DOCUMENTED, SERVICE, "serviceuser"),
        (DOCUMENTED, OFFICE, "adminuser@admin"),
        (DOCUMENTED, "OU=x,cn=Some.One", "some.one"),
        (TESTED, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (TESTED, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (TESTED, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (TESTED, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (TESTED, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        (WITH_COMMA, r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        ("", "CN=Ann", "CN=Ann"),
        ("  DEFAULT  ", "CN=Ann", "CN=Ann"),
        (",   , RULE:^CN=(.*)$/$1/ ,, DEFAULT ,", "CN=Ann", "Ann"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=Ann", "Ann@$4"),
        ("RULE:^CN=(.*)$/$12/", "CN=Ann", "Ann2"),
        ("RULE:^CN=(.*)$/$21/", "CN=Ann", "$21"),
        ("RULE:^CN=(.*)$/$01/", "CN=Ann", "Ann"),
        ("RULE:^CN=.*$/$01/", "CN=Ann", "CN=Ann1"),
        (r"RULE:^CN=.*$/\$1/", "CN=Ann", "$1"),
        (r"RULE:^CN=(.*)\/(.*)$/$2\/$1/", "CN=a/b", "b/a"),
        (r"RULE:^CN=(.*)$/\$1/", "CN=a", "$1"),
        ("RULE:^CN=([^,]+)(,.*)?$/$1$2/", "CN=a", "a"),
        ("RULE:^CN=x$/y/,RULE:^CN=z$/w/", "CN=Ann", None),
        ("RULE:^CN=.*$//", "CN=Ann", None),
        # Java replaces what is left at the end as well.
        ("RULE:.*/x/", "CN=Ann", "xx"),
    ],
)
def test_a_rule_says_what_a_client_is_called(rules: str, name: str, mapped: str | None) -> None:
    assert MappingRules.parse(rules).name_of(name) == mapped


@pytest.mark.parametrize(
    "rules",
    [
        "default", "DEFAUL", "DEFAULT/L", "DEFAULT/U", "DEFAULT DEFAULT",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*$/$1/", "RULE:.*/$1/", "RULE:.*/x$12/L",
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        MappingRules.parse(rules)
