"""Kafka's settings for TLS and SASL as a job for Spark's Kafka source has them."""

import pytest

from semel.errors import ConfigError
from semel.security import PLAINTEXT, Sasl, Security, Tls
from semel.spark.sink_settings import sink_options, sink_settings

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="ana" password="tu\\"lip";'
)


def security(**given: str) -> Security:
    options = {f"kafka.{name.replace('__', '.')}": value for name, value in given.items()}
    servers = {"topic": "t", "kafka.bootstrap.servers": "one"}
    return sink_settings(sink_options({**servers, **options})).client.security


def test_nothing_is_secured_unless_asked_for() -> None:
    assert security() == PLAINTEXT


def test_sasl_over_tls() -> None:
    found = security(
        security__protocol="SASL_SSL",
        sasl__mechanism="SCRAM-SHA-512",
        sasl__jaas__config=JAAS,
        ssl__truststore__type="PEM",
        ssl__truststore__location="/etc/ca.pem",
        ssl__keystore__location="/etc/me.pem",
        ssl__key__password="open",
        ssl__endpoint__identification__algorithm="",
    )
    assert found == Security(
        Tls("/etc/ca.pem", "/etc/me.pem", None, "open", checks_host=False),
        Sasl("SCRAM-SHA-512", "ana", 'tu"lip'),
    )


def test_tls_alone_and_sasl_alone() -> None:
    assert security(security__protocol="SSL") == Security(tls=Tls())
    plain = security(
        security__protocol="SASL_PLAINTEXT", sasl__mechanism="PLAIN", sasl__jaas__config=JAAS
    )
    assert plain == Security(sasl=Sasl("PLAIN", "ana", 'tu"lip'))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security__protocol": "TLS"}, "it is one of PLAINTEXT, SSL"),
        ({"security__protocol": "SSL", "ssl__truststore__type": "BKS"}, "one of PEM, JKS"),
        ({"security__protocol": "SASL_SSL", "sasl__mechanism": "GSSAPI"}, "it is one of PLAIN"),
        (
            {
                "security__protocol": "SASL_SSL",
                "sasl__mechanism": "PLAIN",
                "sasl__jaas__config": 'password="tulip"',
            },
            "needs username",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_told_without_a_password(
    given: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        security(**given)
    assert "tulip" not in str(raised.value)
