"""Who comes in: clients by mechanisms, over TLS and without, with the right credentials and wrong
ones; and what others find who try without."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaError as KafkaPythonError

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.connecting.security_settings import as_security
from semel.errors import RequestError
from support.signing_in import USERS, Secured, secured

USER, PASSWORD = next(iter(USERS.items()))
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS = [("INNER", each) for each in SCRAM] + [("OUTER", each) for each in (*SCRAM, "PLAIN")]
PATIENCE_MS = 20_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured"), {"signin.max.connections.per.ip": 200}) as one:
        yield one


def protocol(listener: str) -> str:
    return "SASL_SSL" if listener == "OUTER" else "SASL_PLAINTEXT"


def comes_in_by_librdkafka(broker: Secured, listener: str, mechanism: str, password: str) -> bool:
    refusals: list[KafkaError] = []
    client = AdminClient(
        {
            "bootstrap.servers": broker.at(listener),
            "security.protocol": protocol(listener),
            "ssl.ca.location": str(broker.authority.trusted),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            "error_cb": refusals.append,
            "log_level": 0,
            "reconnect.backoff.max.ms": 10_000,
            "reconnect.backoff.ms": 10_000,
        }
    )
    while not refusals:
        with contextlib.suppress(Exception):
            return bool(client.list_topics(timeout=0.3).brokers)
        client.poll(0)
    assert refusals[0].code() in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN)
    return False


def comes_in_by_kafka_python(broker: Secured, listener: str, mechanism: str, password: str) -> bool:
    try:
        client = kafka.KafkaAdminClient(
            bootstrap_servers=broker.at(listener),
            security_protocol=protocol(listener),
            ssl_cafile=str(broker.authority.trusted),
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
            bootstrap_timeout_ms=1_000,
        )
    except KafkaPythonError:
        return False
    try:
        return bool(client.describe_cluster()["brokers"])
    finally:
        client.close()


def comes_in_by_aiokafka(broker: Secured, listener: str, mechanism: str, password: str) -> bool:
    async def asked() -> bool:
        client = aiokafka.AIOKafkaClient(
            bootstrap_servers=broker.at(listener),
            security_protocol=protocol(listener),
            ssl_context=create_ssl_context(cafile=str(broker.authority.trusted)),
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
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


def comes_in_by_ours(broker: Secured, listener: str, mechanism: str, password: str) -> bool:
    settings = {
        "security.protocol": protocol(listener),
        "ssl.truststore.location": str(broker.authority.trusted),
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }

    async def asked() -> bool:
        servers = parse_bootstrap_servers(broker.at(listener))
        client = Cluster(
            servers, client_id="c", timeout_ms=PATIENCE_MS, security=as_security(settings)
        )
        try:
            async with client:
                return bool((await client.describe()).brokers)
        except RequestError:
            return False

    return asyncio.run(asked())


CLIENTS: Any = {
    "librdkafka": comes_in_by_librdkafka,
    "kafka-python": comes_in_by_kafka_python,
    "aiokafka": comes_in_by_aiokafka,
    "semel": comes_in_by_ours,
}


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_who_knows_the_password_comes_in(
    broker: Secured, client: str, listener: str, mechanism: str
) -> None:
    assert CLIENTS[client](broker, listener, mechanism, PASSWORD)


@pytest.mark.parametrize(("listener", "mechanism"), [WAYS[0], WAYS[-1]])
@pytest.mark.parametrize("client", CLIENTS)
def test_who_does_not_know_it_stays_outside(
    broker: Secured, client: str, listener: str, mechanism: str
) -> None:
    assert not CLIENTS[client](broker, listener, mechanism, "rose")
