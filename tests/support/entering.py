"""How each client from PyPI, and ours, comes in: by a password, a token or a certificate."""

import asyncio
import contextlib
import gc
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiokafka
import kafka
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.connecting.security_settings import as_security
from semel.errors import RequestError

PATIENCE_MS = 20_000
OAUTHBEARER, CERTIFICATE = "OAUTHBEARER", "certificate"


class Entering(NamedTuple):
    """By which way somebody tries to come in."""

    address: str
    protocol: str
    mechanism: str
    """Of SASL, or `certificate`."""
    secret: str
    """The password, the token, or the file of the certificate and its key; empty without one."""
    trusted: Path
    user: str

    @property
    def certificate(self) -> str | None:
        return self.secret or None if self.mechanism == CERTIFICATE else None

    @property
    def has_password(self) -> bool:
        return self.mechanism not in (OAUTHBEARER, CERTIFICATE)


def comes_in_by_librdkafka(way: Entering) -> bool:
    refusals: list[KafkaError] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": way.address,
        "security.protocol": way.protocol,
        "ssl.ca.location": str(way.trusted),
        "error_cb": refusals.append,
        "log_level": 0,
        "reconnect.backoff.max.ms": 10_000,
        "reconnect.backoff.ms": 10_000,
    }
    if way.certificate is not None:
        settings["ssl.certificate.location"] = settings["ssl.key.location"] = way.certificate
    elif way.mechanism == OAUTHBEARER:
        # It does not send one that it takes for expired.
        settings["oauth_cb"] = lambda _: (way.secret, time.time() + 60)
    elif way.has_password:
        settings |= {"sasl.username": way.user, "sasl.password": way.secret}
    if way.mechanism != CERTIFICATE:
        settings["sasl.mechanism"] = way.mechanism
    client = AdminClient(settings)
    while not refusals:
        with contextlib.suppress(Exception):
            return bool(client.list_topics(timeout=0.3).brokers)
        client.poll(0)
    first = refusals[0]
    if way.mechanism == CERTIFICATE:
        assert "alert" in first.str(), refusals
    else:
        assert first.code() in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN), refusals
    return False


class _TokenOfKafkaPython(KafkaPythonTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class _TokenOfAiokafka(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def _of_python(way: Entering, provider: Callable[[str], object]) -> Mapping[str, Any]:
    """What the two clients in Python call alike."""
    if way.mechanism == CERTIFICATE:
        return {}
    if way.mechanism == OAUTHBEARER:
        credentials = {"sasl_oauth_token_provider": provider(way.secret)}
    else:
        credentials = {"sasl_plain_username": way.user, "sasl_plain_password": way.secret}
    return {"sasl_mechanism": way.mechanism, **credentials}


def comes_in_by_kafka_python(way: Entering) -> bool:
    try:
        client = kafka.KafkaAdminClient(
            bootstrap_servers=way.address,
            security_protocol=way.protocol,
            ssl_cafile=str(way.trusted),
            ssl_certfile=way.certificate,
            ssl_keyfile=way.certificate,
            bootstrap_timeout_ms=1_000,
            **_of_python(way, _TokenOfKafkaPython),
        )
    except KafkaPythonError:
        return False
    try:
        return bool(client.describe_cluster()["brokers"])
    finally:
        client.close()


def comes_in_by_aiokafka(way: Entering) -> bool:
    async def asked() -> bool:
        client = aiokafka.AIOKafkaClient(
            bootstrap_servers=way.address,
            security_protocol=way.protocol,
            ssl_context=create_ssl_context(
                cafile=str(way.trusted), certfile=way.certificate, keyfile=way.certificate
            ),
            **_of_python(way, _TokenOfAiokafka),
        )
        try:
            await client.bootstrap()
        except aiokafka.errors.KafkaError:
            return False
        else:
            return bool(client.cluster.brokers())
        finally:
            await client.close()

    return asyncio.run(asked())


def comes_in_by_ours(way: Entering) -> bool:
    settings = {
        "security.protocol": way.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(way.trusted),
    }
    if way.certificate is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": way.certificate}
    elif way.mechanism == OAUTHBEARER:
        file = way.trusted.with_name("token")
        file.write_text(way.secret)
        settings["sasl.oauthbearer.token.endpoint.url"] = file.as_uri()
    elif way.has_password:
        settings |= {"sasl.username": way.user, "sasl.password": way.secret}
    if way.mechanism != CERTIFICATE:
        settings["sasl.mechanism"] = way.mechanism

    async def asked() -> bool:
        servers = parse_bootstrap_servers(way.address)
        client = Cluster(
            servers, client_id="c", timeout_ms=PATIENCE_MS, security=as_security(settings)
        )
        try:
            async with client:
                return bool((await client.describe()).brokers)
        except RequestError:
            return False

    return asyncio.run(asked())


CLIENTS: Final[Mapping[str, Callable[[Entering], bool]]] = {
    "librdkafka": comes_in_by_librdkafka,
    "kafka-python": comes_in_by_kafka_python,
    "aiokafka": comes_in_by_aiokafka,
    "semel": comes_in_by_ours,
}


def comes_in(client: str, way: Entering) -> bool:
    with warnings.catch_warnings():
        # Those in Python do not close what was closed on them in a handshake, or behind it.
        warnings.filterwarnings("ignore", "unclosed (transport|<socket)", ResourceWarning)
        found = CLIENTS[client](way)
        gc.collect()
    return found
