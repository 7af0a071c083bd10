"""`semel.read` and `semel.write`, against confluent-kafka on the other side."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import semel
from semel.client.columns.headers import HEADERS
from semel.client.columns.schema import COLUMNS
from semel.client.outcome import MustAbort
from semel.errors import (
    ConfigError,
    SaslAuthenticationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from semel.records.compression import Compression
from semel.security import Sasl, Security
from semel.testing import Broker
from support.secured_server import PASSWORD, USER, secured_server

COMPRESSIONS = [one.name.lower() for one in Compression]
COUNT = 500
START = datetime(2024, 5, 1, tzinfo=UTC)


def created(broker: Broker, topic: str, partition_count: int = 3) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partition_count)])[topic].result()
    return topic


def orders(count: int = COUNT) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([None if i % 7 == 0 else f"customer-{i % 50}" for i in range(count)]),
            "value": pa.array([None if i % 11 == 0 else b"%d" % i * 9 for i in range(count)]),
            "headers": pa.array(
                [[("n", b"%d" % i), ("none", None)] if i % 3 else None for i in range(count)],
                HEADERS,
            ),
            "timestamp": pa.array(
                [START + timedelta(seconds=i) for i in range(count)], pa.timestamp("us", "UTC")
            ),
        }
    )


def consumed(broker: Broker, topic: str, count: int) -> list[confluent_kafka.Message]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "oracle",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    described = consumer.list_topics(topic, timeout=10).topics[topic]
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in described.partitions])
    messages: list[confluent_kafka.Message] = []
    while len(messages) < count:
        messages += consumer.consume(count - len(messages), timeout=10)
    consumer.close()
    return messages


def sort_key(row: dict[str, object]) -> tuple[object, ...]:
    return row["partition"], row["offset"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_another_client_reads_what_is_written_and_so_do_we(
    semel_broker: Broker, compression: str
) -> None:
    topic = created(semel_broker, f"written-{compression}")
    table = orders()
    servers = semel_broker.bootstrap_servers
    deliveries = semel.write(topic, table, bootstrap_servers=servers, compression=compression)
    assert sum(delivery.record_count for delivery in deliveries) == COUNT
    read = semel.read(topic, bootstrap_servers=servers, columns=[*COLUMNS, "headers"])
    theirs = [
        {
            "key": message.key(),
            "value": message.value(),
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC),
            "timestampType": 0,
            "headers": [{"key": k, "value": v} for k, v in message.headers() or ()] or None,
        }
        for message in consumed(semel_broker, topic, COUNT)
    ]
    assert sorted(read.to_pylist(), key=sort_key) == sorted(theirs, key=sort_key)
    written = {row["timestamp"]: row for row in table.to_pylist()}
    for row in read.to_pylist():
        key = written[row["timestamp"]]["key"]
        assert row["key"] == (None if key is None else key.encode())
        assert row["value"] == written[row["timestamp"]]["value"]
        assert row["headers"] == written[row["timestamp"]]["headers"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_keys_lie_where_another_client_puts_them(semel_broker: Broker, compression: str) -> None:
    topic = created(semel_broker, f"produced-{compression}", 5)
    servers = semel_broker.bootstrap_servers
    keys = [f"key-{i}" for i in range(200)]
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "partitioner": "murmur2_random",
            "compression.type": compression,
        }
    )
    for key in keys:
        producer.produce(topic, key=key, value=key.upper(), headers={"h": key})
    producer.flush()
    theirs = semel.read(topic, bootstrap_servers=servers, columns=["key", "partition", "headers"])
    semel.write(topic, pa.table({"key": keys, "value": keys}), bootstrap_servers=servers)
    everything = semel.read(topic, bootstrap_servers=servers)
    assert theirs.num_rows == len(keys)
    places = {row["key"].decode(): row["partition"] for row in theirs.to_pylist()}
    assert all(row["headers"] == [{"key": "h", "value": row["key"]}] for row in theirs.to_pylist())
    assert {row["key"].decode(): row["partition"] for row in everything.to_pylist()} == places
    assert set(places) == set(keys)


def test_a_topic_that_was_read_is_written_to_another_one(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    created(semel_broker, "first")
    created(semel_broker, "second")
    semel.write("first", orders(), bootstrap_servers=servers)
    columns = ["key", "value", "partition", "timestamp", "headers", "offset"]
    first = semel.read("first", bootstrap_servers=servers, columns=columns)
    semel.write("second", first, bootstrap_servers=servers, compression="zstd")
    assert semel.read("second", bootstrap_servers=servers, columns=columns).equals(first)


def test_a_stream_gives_the_table_piece_by_piece(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    created(semel_broker, "streamed")
    semel.write("streamed", orders(), bootstrap_servers=servers)
    pieces = semel.read("streamed", bootstrap_servers=servers, stream=True)
    assert isinstance(pieces, Iterator)
    table = semel.read("streamed", bootstrap_servers=servers)
    assert pa.Table.from_batches(pieces).equals(table)


def test_places_are_offsets_times_and_mappings(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    created(semel_broker, "places", 2)
    table = pa.table(
        {
            "value": [b"%d" % i for i in range(20)],
            "partition": [i % 2 for i in range(20)],
            "timestamp": [START + timedelta(seconds=i) for i in range(20)],
        }
    )
    semel.write("places", table, bootstrap_servers=servers)

    def values(**places: object) -> list[int]:
        read = semel.read("places", bootstrap_servers=servers, **places)  # type: ignore[call-overload]
        return sorted(int(value) for value in read["value"].to_pylist())

    assert values(start=8) == [16, 17, 18, 19]
    assert values(start=8, end=9) == [16, 17]
    assert values(start={0: 9, 1: 8}) == [17, 18, 19]
    assert values(start=START + timedelta(seconds=15)) == [15, 16, 17, 18, 19]
    assert values(end=START + timedelta(seconds=3)) == [0, 1, 2]
    assert values(start=START + timedelta(days=1)) == []
    assert values(start="latest") == []
    assert values(partitions=[1], end=3) == [1, 3, 5]
    assert values(start=np.int64(8), end={0: np.int64(9), 1: 9}) == [16, 17]
    assert values(start=100) == []
    assert values(partitions=[1], start={0: 0, 1: 9}) == [19]


def test_one_transaction_writes_all_or_nothing(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    created(semel_broker, "atomic")
    good = pa.table({"value": [b"a", b"b"]})
    semel.write("atomic", good, bootstrap_servers=servers, transactional_id="atomic")
    bad = pa.table({"value": [b"c", b"x" * 3_000_000]})
    with pytest.raises(MustAbort, match="larger"):
        semel.write("atomic", bad, bootstrap_servers=servers, transactional_id="atomic")
    semel.write("atomic", good, bootstrap_servers=servers, transactional_id="atomic")
    read = semel.read("atomic", bootstrap_servers=servers)
    assert sorted(read["value"].to_pylist()) == [b"a", b"a", b"b", b"b"]


def test_whatever_arrow_takes_over_can_be_written(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    created(semel_broker, "sources", 1)
    batch = pa.record_batch({"value": pa.array(["record batch"], pa.large_string())})
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    for data in (
        batch,
        reader,
        {"value": ["mapping"]},
        pa.table({"value": pa.array([], "string")}),
    ):
        semel.write("sources", data, bootstrap_servers=servers)
    read = semel.read("sources", bootstrap_servers=servers)
    assert read["value"].to_pylist() == [b"record batch", b"record batch", b"mapping"]


def test_one_column_may_be_named_without_a_list(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    created(semel_broker, "one-column", 1)
    semel.write("one-column", {"value": ["x"]}, bootstrap_servers=servers)
    read = semel.read("one-column", bootstrap_servers=servers, columns="value")
    assert read.to_pylist() == [{"value": b"x"}]


@pytest.mark.parametrize("as_list", [list, tuple])
def test_addresses_may_come_in_a_list(
    semel_broker: Broker, as_list: Callable[[list[str]], Sequence[str]]
) -> None:
    servers = as_list([semel_broker.bootstrap_servers])
    topic = created(semel_broker, f"listed-{as_list.__name__}", 1)
    semel.write(topic, {"value": ["x"]}, bootstrap_servers=servers)
    assert semel.read(topic, bootstrap_servers=servers)["value"].to_pylist() == [b"x"]


@pytest.fixture(scope="module")
def three_partitions(semel_broker: Broker) -> dict[str, Any]:
    topic = created(semel_broker, "reads", 3)
    return {"topic": topic, "bootstrap_servers": semel_broker.bootstrap_servers}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"topic": ["orders", "results"]}, "topic is ['orders', 'results']: it has to be the name"),
        ({"start": -1}, "start is -1: offsets are not negative"),
        ({"end": {0: -2}}, "end of partition 0 is -2: offsets are not negative"),
        ({"start": True}, "start is True: it has to be earliest, latest, an offset,"),
        ({"start": "somewhere"}, "start is 'somewhere': it has to be earliest, latest, an offset,"),
        ({"start": {0: 0}}, "start has no offset for partition 1: each partition that is read"),
        ({"end": {0: 0, 9: 0}}, "end names partition 9, which topic reads does not have: it has 3"),
        ({"start": {"0": 0}}, "start names partition '0': partitions are integers"),
        ({"start": {0: "latest"}}, "start of partition 0 is 'latest': it has to be an offset"),
        ({"partitions": [0, 9]}, "partitions names partition 9, which topic reads does not have"),
        ({"partitions": 0}, "partitions is 0: it has to be a list of partitions"),
        ({"columns": None}, "columns is None: it has to be a list of columns"),
        ({"columns": "vlue"}, "there is no column 'vlue': there are key, value"),
        ({"bootstrap_servers": 9092}, "bootstrap_servers is 9092: it has to be text such as"),
    ],
)
def test_a_wrong_argument_of_a_read_is_named_with_what_is_taken(
    three_partitions: dict[str, Any], wrong: dict[str, Any], complaint: str
) -> None:
    arguments = {**three_partitions, **wrong}
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        semel.read(**arguments)


def test_wrong_words_are_answered_with_the_right_ones(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    created(semel_broker, "words", 2)
    with pytest.raises(ConfigError, match="neither read_committed nor read_uncommitted"):
        semel.read("words", bootstrap_servers=servers, isolation="serializable")
    with pytest.raises(ConfigError, match="one of none, gzip, snappy, lz4, zstd"):
        semel.write("words", {"value": ["a"]}, bootstrap_servers=servers, compression="zip")
    with pytest.raises(UnknownTopicOrPartition, match="no partition 2: it has 2; without column"):
        semel.write("words", {"value": ["a"], "partition": [2]}, bootstrap_servers=servers)


def test_arrow_is_imported_with_its_first_use_only() -> None:
    program = (
        "import sys, semel, semel.client.cluster.cluster\n"
        "assert not {'pyarrow', 'numpy'} & set(sys.modules)\n"
        "assert callable(semel.read) and callable(semel.write)\n"
        "assert 'pyarrow' in sys.modules\n"
        "assert not hasattr(semel, 'reed')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_environment_names_the_brokers(
    semel_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = created(semel_broker, "named-by-environment")
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", semel_broker.bootstrap_servers)
    semel.write(topic, {"value": ["x"]})
    assert semel.read(topic)["value"].to_pylist() == [b"x"]
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", "not an address:x")
    assert semel.read(topic, bootstrap_servers=semel_broker.bootstrap_servers).num_rows == 1
    with pytest.raises(ConfigError):
        semel.read(topic)


@pytest.mark.parametrize(
    "work",
    [
        lambda *servers, **security: semel.read("t", bootstrap_servers=servers[0], **security),
        lambda *servers, **security: semel.write(
            "t", {"value": ["x"]}, bootstrap_servers=servers[0], **security
        ),
    ],
    ids=["read", "write"],
)
@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
def test_tables_sign_in(work: Callable[..., object], password: str) -> None:
    security = Security(sasl=Sasl("PLAIN", USER, password))

    async def run() -> None:
        async with secured_server(has_tls=False, mechanism="PLAIN") as address:
            await asyncio.to_thread(work, str(address), security=security)

    # The server knows how to sign in, and nothing of topics.
    kind = SaslAuthenticationFailed if password == "wrong" else UnsupportedVersion
    with pytest.raises(kind):
        asyncio.run(run())
