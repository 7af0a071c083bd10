"""Names in certificates, and what rules make of them, as Java and Apache Kafka have them."""

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from random import Random

from cryptography.x509.oid import NameOID
from peers.registry import ROOT, jars, java_classes

from access.test_certificate_names import DOCUMENTED, SHORT, TESTED, WITH_COMMA, Attribute, encoded
from semel.access.certificate_names import MappingRules
from semel.access.distinguished_name import distinguished_name
from semel.errors import ConfigError

COUNT = 2_000
KINDS = (*SHORT, NameOID.EMAIL_ADDRESS, NameOID.TITLE, NameOID.SERIAL_NUMBER)
LETTERS = 'abAB,+"\\<>;=# /éü漢.@0'
PATTERNS = (
    "^CN=(.*?),OU=(.*?)$", "^CN=([^,]+),.*$", "^.*CN=([a-zA-Z0-9.]*).*$", ".*", "(.*)=(.*)",
    "^(cn|CN)=(.*)$", r"^CN=((\\, *|\w)+)(,.*|$)", r"^O=(.*)\/(.*)$", "^UID=(a+)b*$", "CN=(",
)  # fmt: skip
REPLACEMENTS = ("$1", "$2@$1", "x", "", "$1$3", r"\$1", r"$1\/y", "$0", "$12")


def subjects(random: Random) -> bytes:
    names = []
    for _ in range(random.randint(1, 4)):
        size = random.choice((1, 1, 3, 8, 30))
        value = "".join(random.choices(LETTERS, k=size))
        kind = random.choice(KINDS)
        # An address of mail is of ASCII.
        if kind == NameOID.EMAIL_ADDRESS:
            value = value.encode("ascii", "replace").decode()
        names.append(Attribute(kind, value, _validate=False))
    return encoded(*names)


def rules(random: Random) -> str:
    if random.random() < 0.3:
        return random.choice((DOCUMENTED, TESTED, WITH_COMMA, "DEFAULT", "RULE:x/", "default"))
    made = []
    for _ in range(random.randint(1, 3)):
        pattern, replacement = random.choice(PATTERNS), random.choice(REPLACEMENTS)
        if "(" not in pattern and replacement.startswith("$"):
            # Kafka finds out when somebody comes, and is refused: it is not let begin here.
            replacement = "$0"
        made.append(f"RULE:{pattern}/{replacement}/{random.choice(('', 'L', 'U'))}")
    last = random.choice(([], ["DEFAULT"]))
    return random.choice((",", " , ")).join([*made, *last])


def asked_of_java(cases: Sequence[tuple[str, bytes]]) -> list[tuple[str, str]]:
    class_path = jars(ROOT / "peers" / "java")
    classes = java_classes(ROOT / "peers" / "java" / "CertificateNames.java", class_path)
    command = ["java", "-cp", f"{classes}:{class_path}/*", "CertificateNames"]
    lines = [f"{b64encode(each.encode()).decode()} {b64encode(of).decode()}" for each, of in cases]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    )
    found = [line.split(" ") for line in done.stdout.splitlines()]
    return [
        (b64decode(name).decode(), mapped if mapped in ("-", "!") else b64decode(mapped).decode())
        for name, mapped in found
    ]


def ours(text: str, name: str) -> str:
    try:
        return MappingRules.parse(text).name_of(name) or "-"
    except ConfigError:
        return "!"


def test_names_and_what_rules_make_of_them_are_those_of_java() -> None:
    random = Random(16)
    cases = [(rules(random), subjects(random)) for _ in range(COUNT)]
    answers = asked_of_java(cases)
    kinds = set()
    for (text, subject), (name, mapped) in zip(cases, answers, strict=True):
        assert distinguished_name(subject) == name
        # Whoever would be called nothing is refused here.
        assert ours(text, name) == (mapped or "-"), (text, name)
        kinds.add(mapped if mapped in ("-", "!") else mapped == name)
    assert kinds == {"-", "!", True, False}
