"""The batch source as Spark calls it, without Spark: bounds by place and time."""

import pytest
from pyspark.sql.types import StructType

from semel.errors import ConfigError
from semel.spark.batch_reader import BatchReader
from semel.spark.bounds import batch_end, batch_start
from semel.spark.source import SemelSource
from semel.spark.source_settings import source_options, source_settings
from semel.testing import Broker
from support import topics


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    servers = semel_broker.bootstrap_servers
    topics.create(servers, name, 2)
    for partition in (0, 1):
        values = [b"%d-%d" % (partition, number) for number in range(5)]
        times_ms = [1000 * (number + 1) for number in range(5)]
        topics.fill(servers, name, values, partition, timestamps_ms=times_ms)
    return name


def values(broker: Broker, **given: str) -> list[str]:
    options = source_options({"kafka.bootstrap.servers": broker.bootstrap_servers, **given})
    reader = BatchReader(source_settings(options), batch_start(options), batch_end(options))
    found: list[str] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            found += [value.decode() for value in batch.column("value").to_pylist()]
    return found


ALL = [f"{partition}-{number}" for partition in (0, 1) for number in range(5)]


def test_everything_is_read_unless_told_otherwise(semel_broker: Broker, topic: str) -> None:
    assert values(semel_broker, subscribe=topic) == ALL


def test_bounds_by_offset(semel_broker: Broker, topic: str) -> None:
    found = values(
        semel_broker,
        subscribe=topic,
        startingOffsets=f'{{"{topic}": {{"0": 3, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": -1, "1": 1}}}}',
    )
    assert found == ["0-3", "0-4", "1-0"]


def test_bounds_by_time(semel_broker: Broker, topic: str) -> None:
    found = values(semel_broker, subscribe=topic, startingTimestamp="2000", endingTimestamp="3500")
    assert found == ["0-1", "0-2", "1-1", "1-2"]
    found = values(
        semel_broker,
        assign=f'{{"{topic}": [1]}}',
        startingOffsetsByTimestamp=f'{{"{topic}": {{"1": 4000}}}}',
        endingOffsetsByTimestamp=f'{{"{topic}": {{"1": 99000}}}}',
    )
    assert found == ["1-3", "1-4"]


def test_bounds_that_cross_are_refused(semel_broker: Broker, topic: str) -> None:
    with pytest.raises(ConfigError, match=f"{topic}-0 would be read from offset 4 to 2"):
        values(
            semel_broker,
            subscribe=topic,
            startingOffsets=f'{{"{topic}": {{"0": 4, "1": 0}}}}',
            endingOffsets=f'{{"{topic}": {{"0": 2, "1": 0}}}}',
        )


def test_limits_of_streams_have_no_effect_on_batches(
    semel_broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = SemelSource(
        {
            "kafka.bootstrap.servers": semel_broker.bootstrap_servers,
            "subscribe": topic,
            "maxOffsetsPerTrigger": "5",
        }
    )
    reader = source.reader(source.schema())
    assert "option maxOffsetsPerTrigger is for streams" in caplog.text
    assert len(list(reader.partitions())) == 2


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"key": "binary", "more": "integer"},
            "schema\\(\\) has more int: it may name columns of a topic",
        ),
        ({"value": "string"}, "schema\\(\\) has value string"),
        (
            {"offset": "integer"},
            "key binary, value binary, topic string, partition int, offset big",
        ),
        ({}, "schema\\(\\) names no column"),
    ],
)
def test_another_schema_is_refused(
    semel_broker: Broker, topic: str, given: dict[str, str], reason: str
) -> None:
    source = SemelSource(
        {"kafka.bootstrap.servers": semel_broker.bootstrap_servers, "subscribe": topic}
    )
    schema = StructType()
    for name, kind in given.items():
        schema.add(name, kind)
    with pytest.raises(ConfigError, match=reason):
        source.reader(schema)


def test_a_column_that_may_be_null_is_not_promised_to_be_otherwise(
    semel_broker: Broker, topic: str
) -> None:
    source = SemelSource(
        {"kafka.bootstrap.servers": semel_broker.bootstrap_servers, "subscribe": topic}
    )
    with pytest.raises(ConfigError, match="schema\\(\\) has value not null"):
        source.reader(StructType().add("value", "binary", nullable=False))
