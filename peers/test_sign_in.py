"""The clients of Apache Kafka and franz-go come in by each mechanism, over TLS and without: with
right credentials, and not with wrong ones or such that have expired."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from peers.registry import ROOT, go_program, jars, java_classes

from support.entering import CERTIFICATE, OAUTHBEARER, Entering
from support.ways_in import CASES, RIGHT, WaysIn, ways_in

TIMEOUT_S = 300
MODULE = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaysIn]:
    with ways_in(tmp_path_factory.mktemp("ways")) as found:
        yield found


def said(command: Sequence[str], files: Sequence[Path]) -> dict[tuple[str, ...], str]:
    """What the program says of each case."""
    done = subprocess.run(
        [*command, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return dict(zip(CASES, done.stdout.splitlines(), strict=True))


def pkcs8(file: str) -> str:
    """The only form of a key in PEM that Java reads."""
    content = Path(file).read_bytes()
    begin = content.index(b"-----BEGIN CERTIFICATE")
    key = serialization.load_pem_private_key(content[:begin], None)
    made = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    written = Path(file).with_suffix(".pkcs8.pem")
    written.write_bytes(made + content[begin:])
    return str(written)


def java_settings(way: Entering) -> dict[str, str]:
    settings = {
        "bootstrap.servers": way.address,
        "security.protocol": way.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(way.trusted),
        # One that is not heard of as refused would be tried for as long.
        "default.api.timeout.ms": "30000",
        "request.timeout.ms": "30000",
    }
    if way.certificate is not None:
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": pkcs8(way.certificate)}
        return {**settings, **own}
    login = f'username="{way.user}" password="{way.secret}"'
    if way.mechanism == OAUTHBEARER:
        module, login = f"{MODULE}.oauthbearer.OAuthBearerLoginModule", f'token="{way.secret}"'
        settings["sasl.login.callback.handler.class"] = "SignIn$Tokens"
    elif way.mechanism == "PLAIN":
        module = f"{MODULE}.plain.PlainLoginModule"
    else:
        module = f"{MODULE}.scram.ScramLoginModule"
    settings["sasl.mechanism"] = way.mechanism
    settings["sasl.jaas.config"] = f"{module} required {login};"
    return settings


@pytest.mark.parametrize("client", ["java", "java-3.9"])
def test_the_client_of_apache_kafka_comes_in_with_the_right_credentials_alone(
    ways: WaysIn, client: str, tmp_path: Path
) -> None:
    classes = java_classes(ROOT / "peers/java/SignIn.java", jars(ROOT / "peers/java"))
    class_path = f"{classes}:{jars(ROOT / 'peers' / client)}/*"
    files = []
    for case in CASES:
        file = tmp_path / "-".join(case)
        settings = java_settings(ways.way(*case))
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        files.append(file)
    found = said(["java", "-Xmx256m", "-cp", class_path, "SignIn"], files)
    assert found == {case: java_says(*case) for case in CASES}


def java_says(listener: str, mechanism: str, kind: str) -> str:
    if kind == RIGHT:
        return "in 1"
    kind_of_refusal = "Ssl" if mechanism == CERTIFICATE else "Sasl"
    return f"out {kind_of_refusal}AuthenticationException"


def test_franz_go_comes_in_with_the_right_credentials_alone(ways: WaysIn, tmp_path: Path) -> None:
    program = go_program(ROOT / "peers/go-sign-in")
    files = []
    for case in CASES:
        way, file = ways.way(*case), tmp_path / "-".join(case)
        settings = {**way._asdict(), "trusted": str(way.trusted)}
        if way.certificate is not None:
            settings["certificate"] = way.certificate
        file.write_text(json.dumps(settings))
        files.append(file)
    found = said([str(program)], files)
    assert {case: line.split()[0] for case, line in found.items()} == {
        case: "in" if case[2] == RIGHT else "out" for case in CASES
    }
    # Nothing but a refusal: what it says tells which.
    reasons = [line for case, line in found.items() if case[2] != RIGHT]
    known = ("SASL_AUTHENTICATION_FAILED", "unexpected data in oauth response", "tls: ")
    assert all(any(word in each for word in known) for each in reasons), reasons
