"""Kafka's and librdkafka's names for TLS and SASL, and values that are written elsewhere."""

from pathlib import Path

import pytest

import semel
from semel.client.connecting.security_settings import as_security, check_holds_no_secret
from semel.errors import ConfigError
from semel.security import PLAINTEXT, ClientCredentials, Sasl, Security, Tls

JAVA_OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    ),
    "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
    "sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        "clientId='me' clientSecret=\"tu\\\"lip\" scope=kafka extension_logicalCluster='lkc';"
    ),
}
LIBRDKAFKA_OIDC = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 'tu"lip',
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc",
}
NEWEST_JAVA_OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": 'tu"lip',
    "sasl.oauthbearer.scope": "kafka",
    "sasl.jaas.config": "OAuthBearerLoginModule required extension_logicalCluster=lkc;",
}


@pytest.mark.parametrize("given", [JAVA_OIDC, LIBRDKAFKA_OIDC, NEWEST_JAVA_OIDC])
def test_all_clients_names_of_one_provider_mean_the_same(given: dict[str, str]) -> None:
    token = ClientCredentials("https://id.example/token", "me", 'tu"lip', "kafka")
    extensions = (("logicalCluster", "lkc"),)
    assert as_security(given) == Security(
        Tls(), Sasl("OAUTHBEARER", token=token, extensions=extensions)
    )


def test_a_token_may_lie_in_a_file() -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///run/a%20token",
    }
    assert as_security(given) == Security(sasl=Sasl("OAUTHBEARER", token=Path("/run/a token")))


def test_the_names_of_librdkafka() -> None:
    given = {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.key",
        "ssl.key.password": "open",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "ana",
        "sasl.password": "tulip",
    }
    assert as_security(given) == Security(
        Tls("ca.pem", "me.pem", "me.key", "open", checks_host=False),
        Sasl("PLAIN", "ana", "tulip"),
    )


def test_a_value_may_be_written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TEST", "tulip")
    (tmp_path / "plain").write_text("tulip\n")
    (tmp_path / "some.properties").write_text("password=tulip\n")
    for reference in (
        "${env:SECRET_OF_THE_TEST}",
        f"${{file:{tmp_path}/plain}}",
        f"${{file:{tmp_path}/some.properties:password}}",
        f"${{dir:{tmp_path}:plain}}",
    ):
        given = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ana",
            "sasl.password": reference,
        }
        assert as_security(given).sasl == Sasl("PLAIN", "ana", "tulip"), reference
        check_holds_no_secret("sasl.password", reference)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("${env:NOT_SET_ANYWHERE}", "the environment has no NOT_SET_ANYWHERE"),
        ("${file:/nowhere/secret}", "/nowhere/secret: no such file"),
        ("${dir:/nowhere:secret}", "/nowhere/secret: no such file"),
    ],
)
def test_a_value_that_is_not_there_is_told_with_its_setting(reference: str, words: str) -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ana",
        "sasl.password": reference,
    }
    with pytest.raises(ConfigError, match=f"sasl.password: .*{words}"):
        as_security(given)


def oidc(**changes: str | None) -> dict[str, str]:
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in (LIBRDKAFKA_OIDC | changed).items() if value is not None}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sasl.mechanism": "PLAIN"}, "no effect without security.protocol"),
        ({"sasl.pasword": "x"}, "'sasl.pasword'; did you mean 'sasl.password'"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing: it is one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "or say sasl.username"),
        (
            oidc(ssl__truststore__password="tulip"),
            r"that ssl\.truststore\.location names, and that",
        ),
        (
            oidc(ssl__keystore__password="tulip"),
            r"keystore\.password opens the store that ssl\.key",
        ),
        (oidc(sasl__oauthbearer__method="default"), "can be oidc alone"),
        (oidc(sasl__login__callback__handler__class="my.Handler"), "cannot be called here"),
        (oidc(sasl__oauthbearer__token__endpoint__url=None), "token.endpoint.url is missing"),
        (oidc(sasl__oauthbearer__token__endpoint__url="ftp://x/y"), "begins with https://"),
        (oidc(sasl__oauthbearer__client__id=None), r"client\.id is missing"),
        (oidc(sasl__oauthbearer__client__secret=None), r"client\.secret is missing"),
        (oidc(sasl__oauthbearer__extensions="a"), "has 'a', which is not NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_told_without_a_secret(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        as_security(given)
    assert "lip" not in str(raised.value)


def test_a_secret_in_the_arguments_of_a_command_is_refused() -> None:
    with pytest.raises(ConfigError, match="would show to everyone") as raised:
        check_holds_no_secret("sasl.password", "tulip")
    assert "tulip" not in str(raised.value)
    check_holds_no_secret("sasl.username", "ana")


def test_clients_take_them_when_they_are_made() -> None:
    wrong = {"security.protocol": "TLS"}
    for make in (
        lambda: semel.Producer("one", security=wrong),
        lambda: semel.Consumer("one", security=wrong),
        lambda: semel.App("one", security=wrong),
        lambda: semel.read("topic", bootstrap_servers="one", security=wrong),
    ):
        with pytest.raises(
            ConfigError, match=r"security: security\.protocol is 'TLS': it is one of"
        ):
            make()
    with pytest.raises(ConfigError, match="is of type str"):
        semel.Producer("one", security="SSL")  # type: ignore[arg-type]


def test_nothing_is_secured_unless_asked_for() -> None:
    assert as_security({}) == as_security(PLAINTEXT) == PLAINTEXT
