"""What a user of the Python client can mistype: one sentence with the remedy, and nothing done."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import semel
from semel.errors import (
    ConfigError,
    InvalidTopic,
    NetworkException,
    RequestTimedOut,
    SemelError,
    UnknownTopicOrPartition,
)
from semel.testing import Broker
from semel.types import TopicPartition

Act = Callable[[str, Path], object]


@dataclass
class Order:
    article: str
    count: int


def produced(servers: str, topic: str, value: object = "x", **options: object) -> None:
    with semel.Producer(servers, block_timeout_ms=2_000, **options) as producer:  # type: ignore[arg-type]
        producer.send(topic, value).result()


def consumed(servers: str, topic: str, **options: object) -> list[object]:
    with semel.Consumer(servers, block_timeout_ms=2_000, **options) as consumer:  # type: ignore[arg-type]
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in consumer.poll(10_000)]


def secured(**settings: str) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


MISTAKES: list[tuple[str, Act, type[Exception], str]] = [
    # Options
    (
        "an option of another library",
        lambda servers, folder: semel.Producer(servers, retries=3),  # type: ignore[call-arg]
        ConfigError,
        "there is no producer option 'retries'",
    ),
    (
        "an option that is nearly one",
        lambda servers, folder: semel.Consumer(servers, auto_offset_rest="latest"),  # type: ignore[call-arg]
        ConfigError,
        "did you mean 'auto_offset_reset'",
    ),
    (
        "text for a number",
        lambda servers, folder: semel.Producer(servers, linger_ms="5"),  # type: ignore[arg-type]
        ConfigError,
        "linger_ms is '5', and must be a number",
    ),
    (
        "a compression that nobody has",
        lambda servers, folder: semel.Producer(servers, compression="brotli"),
        ConfigError,
        "'brotli' is not a compression: give one of none, gzip, snappy, lz4, zstd",
    ),
    (
        "acks that cannot be",
        lambda servers, folder: semel.Producer(servers, acks=2),
        ConfigError,
        "2 is not a value of acks: give 'all', 1 or 0",
    ),
    (
        "an isolation that cannot be",
        lambda servers, folder: semel.Consumer(servers, isolation="committed"),
        ConfigError,
        "neither read_committed nor read_uncommitted",
    ),
    # Names and places
    (
        "a topic that cannot be",
        lambda servers, folder: produced(servers, "no spaces"),
        InvalidTopic,
        "no spaces",
    ),
    (
        "a partition that is not there",
        lambda servers, folder: semel.read("bad-input", bootstrap_servers=servers, partitions=[7]),
        ConfigError,
        "names partition 7, which topic bad-input does not have: it has 1",
    ),
    (
        "reading a topic that is not there",
        lambda servers, folder: semel.read("bad-input-none", bootstrap_servers=servers),
        UnknownTopicOrPartition,
        "topic bad-input-none does not exist",
    ),
    (
        "an offset that is text",
        lambda servers, folder: semel.read("bad-input", bootstrap_servers=servers, start="first"),
        Exception,
        "first",
    ),
    # Brokers
    (
        "a dead broker",
        lambda servers, folder: produced("127.0.0.1:1", "t"),
        (NetworkException, RequestTimedOut),  # type: ignore[list-item]
        "127.0.0.1:1",
    ),
    (
        "an address that is none",
        lambda servers, folder: semel.Producer("localhost:kafka"),
        ConfigError,
        "'kafka' is not a port",
    ),
    # Security
    (
        "a certificate that is not there",
        lambda servers, folder: produced(
            servers,
            "t",
            security=secured(security_protocol="SSL", ssl_ca_location=str(folder / "ca.pem")),
        ),
        ConfigError,
        "ca.pem",
    ),
    (
        "a certificate that is none",
        lambda servers, folder: produced(
            servers, "t", security=secured(security_protocol="SSL", ssl_ca_location=__file__)
        ),
        ConfigError,
        "test_bad_input.py",
    ),
    (
        "a sign-in without the protocol for it",
        lambda servers, folder: semel.Producer(
            servers, security=secured(sasl_mechanism="PLAIN", sasl_username="ana")
        ),
        ConfigError,
        "sasl.mechanism has no effect without security.protocol: say SASL_SSL",
    ),
    (
        "a setting of security that is nearly one",
        lambda servers, folder: semel.Producer(servers, security={"sasl.user": "ana"}),
        ConfigError,
        "there is no security setting 'sasl.user'",
    ),
    # Schemas
    (
        "a value that nothing can be made of",
        lambda servers, folder: produced(servers, "bad-input-empty", object()),
        Exception,
        "object",
    ),
    (
        "a record that does not fit",
        lambda servers, folder: consumed(servers, "bad-input", value=Order),
        SemelError,
        "bad-input-0",
    ),
]


@pytest.fixture(scope="module")
def servers(semel_broker: Broker) -> str:
    servers = semel_broker.bootstrap_servers
    with semel.Admin(servers) as admin:
        admin.create_topics(["bad-input", "bad-input-empty"], partitions=1)
    produced(servers, "bad-input", {"article": "apple", "count": "many"})
    return servers


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [each[1:] for each in MISTAKES],
    ids=[each[0].replace(" ", "-") for each in MISTAKES],
)
def test_a_mistake_is_told_in_a_sentence_and_changes_nothing(
    servers: str, tmp_path: Path, act: Act, error: type[Exception], sentence: str
) -> None:
    with semel.Admin(servers) as admin:
        before = admin.list_topics(), admin.end_offsets(["bad-input", "bad-input-empty"])
        with pytest.raises(error) as raised:
            act(servers, tmp_path)
        said = str(raised.value)
        assert sentence in said
        assert "\n" not in said
        assert (admin.list_topics(), admin.end_offsets(["bad-input", "bad-input-empty"])) == before


def test_a_mistake_within_a_transaction_leaves_nothing_of_it(servers: str) -> None:
    async def work() -> None:
        producer = semel.AsyncProducer(servers, transactional_id="bad-input")
        async with producer, producer.transaction():
            await producer.send("bad-input-empty", "first")
            await producer.send("bad-input-empty", object())

    with pytest.raises(TypeError, match="object"):
        asyncio.run(work())
    with semel.Admin(servers) as admin:
        assert semel.read("bad-input-empty", bootstrap_servers=servers).num_rows == 0
        listed = admin.list_transactions(only_open=True)
    # Other tests have transactions on this broker.
    assert not any(each.transactional_id == "bad-input" for each in listed)
