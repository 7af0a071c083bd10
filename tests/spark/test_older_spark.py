"""What stands in for the newer parts of PySpark's interface, called as the older ones call it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import TimestampType

from semel.errors import ConfigError
from semel.spark import source as source_module
from semel.spark.data_loss import DataLoss
from semel.spark.older_spark import UnlimitedReader, as_batches
from semel.spark.source import SemelSource
from semel.testing import Broker
from spark.test_stream_reader import read
from spark.test_writers import schema
from support import topics

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "LIMITS_BATCHES", False)


def reader(servers: str, topic: str, **options: str) -> UnlimitedReader:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    made = SemelSource({**given, **options})
    found = made.streamReader(made.schema())
    assert isinstance(found, UnlimitedReader)
    return found


@pytest.mark.usefixtures("older")
def test_a_source_that_is_not_told_where_it_begins_reads_on(
    semel_broker: Broker, name: str
) -> None:
    servers = semel_broker.bootstrap_servers
    topics.fill(servers, name, [b"one"])
    stream = reader(servers, name)
    first = stream.latestOffset()
    assert read(stream, stream.initialOffset(), first) == [b"one"]
    topics.fill(servers, name, [b"two"])
    # The next process knows the offsets from the checkpoint alone.
    stream = reader(servers, name)
    second = stream.latestOffset()
    assert read(stream, first, second) == [b"two"]
    assert stream.reportLatestOffset() == second


@pytest.mark.usefixtures("older")
def test_a_topic_that_is_another_one_is_told_when_the_batch_is_planned(
    semel_broker: Broker, name: str
) -> None:
    servers = semel_broker.bootstrap_servers
    topics.fill(servers, name, [b"one"])
    begun = reader(servers, name).latestOffset()
    topics.delete(servers, name)
    topics.fill(servers, name, [b"another"])
    stream = reader(servers, name)
    with pytest.raises(DataLoss, match="was deleted and created again"):
        stream.partitions(begun, stream.latestOffset())
    lenient = reader(servers, name, failOnDataLoss="false")
    assert read(lenient, begun, lenient.latestOffset()) == [b"another"]


@pytest.mark.usefixtures("older")
def test_a_limit_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"maxBytesPerTrigger needs PySpark 4\.2"):
        reader("localhost:9", "t", maxBytesPerTrigger="1m")


def test_rows_become_batches() -> None:
    names = {"key": "binary", "value": "string", "partition": "int", "headers": "headers"}
    kinds = schema(**names, timestamp="timestamp")
    local = TimestampType().fromInternal(int(NOON.timestamp() * 1_000_000))
    headers = [Row(key="h", value=bytearray(b"1"))]
    rows: Iterator[Any] = iter(
        [(bytearray(b"k"), "v", 3, headers, local), (None, None, None, None, None)]
    )
    (batch,) = as_batches(rows, kinds)
    assert batch.to_pylist() == [
        {
            "key": b"k",
            "value": "v",
            "partition": 3,
            "headers": [{"key": "h", "value": b"1"}],
            "timestamp": NOON,
        },
        dict.fromkeys(kinds.names),
    ]
