"""The sources on logs with gaps and emptied batches: every record once, wherever ranges are cut."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import semel.spark
from semel.spark.batch_reader import BatchReader
from semel.spark.bounds import batch_end, batch_start, stream_start
from semel.spark.data_loss import DataLoss
from semel.spark.source_settings import source_options, source_settings
from semel.spark.stream_reader import StreamReader
from semel.types import TopicPartition
from support import topics
from support.broker_in_thread import BrokerInThread
from support.compacted_log import batch_of
from support.compacted_topic import LOG, compacted_topics, delete_before
from support.inside import store

ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerInThread]:
    with compacted_topics(tmp_path_factory.mktemp("compacted") / "data") as running:
        yield running


def wanted(isolation: str) -> list[tuple[int, bytes | None]]:
    visible = LOG.visible(is_committed_only=isolation == "read_committed")
    return [(each.offset, each.value) for each in visible]


def read(source: Any, partitions: Any) -> list[tuple[int, bytes | None]]:
    """As tasks in other processes would."""
    found: list[tuple[int, bytes | None]] = []
    for partition in pickle.loads(pickle.dumps(partitions)):
        for batch in pickle.loads(pickle.dumps(source)).read(partition):
            columns = (batch.column(name).to_pylist() for name in ("offset", "value"))
            found += zip(*columns, strict=True)
    return found


def batch_reader(broker: BrokerInThread, **given: str) -> BatchReader:
    options = source_options({"kafka.bootstrap.servers": broker.bootstrap_servers, **given})
    return BatchReader(source_settings(options), batch_start(options), batch_end(options))


def stream_reader(broker: BrokerInThread, given: dict[str, str]) -> StreamReader:
    options = source_options({"kafka.bootstrap.servers": broker.bootstrap_servers, **given})
    return StreamReader(source_settings(options), stream_start(options))


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("count", ["1", "7", "40"])
def test_a_batch_reads_all_there_is_however_many_tasks_share_it(
    broker: BrokerInThread, isolation: str, count: str
) -> None:
    given = {"subscribe": "t", "kafka.isolation.level": isolation, "minPartitions": count}
    source = batch_reader(broker, **given)
    partitions = source.partitions()
    assert len(partitions) >= int(count)
    assert read(source, partitions) == wanted(isolation)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize(
    "limit", [{"maxOffsetsPerTrigger": "3"}, {"maxBytesPerTrigger": "50"}, {}], ids=str
)
def test_a_stream_comes_to_the_end_over_gaps_of_any_size(
    broker: BrokerInThread, isolation: str, limit: dict[str, str]
) -> None:
    given = {"subscribe": "t", "kafka.isolation.level": isolation, "startingOffsets": "earliest"}
    source = stream_reader(broker, {**given, **limit})
    found: list[tuple[int, bytes | None]] = []
    begin = source.initialOffset()
    while True:
        end = source.latestOffset(begin, source.getDefaultReadLimit())
        if end == begin:
            break
        found += read(source, source.partitions(begin, end))
        begin = end
    assert begin["t"] == {"0": LOG.end}
    assert found == wanted(isolation)


def test_a_batch_ends_in_a_gap_before_a_transaction_that_is_open(broker: BrokerInThread) -> None:
    source = batch_reader(broker, subscribe="held-up")
    assert [offset for offset, _ in read(source, source.partitions())] == list(range(10))


def test_a_start_that_moves_up_into_a_gap_is_a_loss_of_what_was_before_it(
    broker: BrokerInThread,
) -> None:
    place = TopicPartition("moving", 0)
    servers = broker.bootstrap_servers
    topics.create(servers, place.topic)
    batches = [batch_of(0, 9), batch_of(20, 29)]
    broker.do(lambda inside: store(inside, place, batches, ()))
    given = {"subscribe": "moving", "startingOffsets": "earliest"}
    strict = stream_reader(broker, given)
    lenient = stream_reader(broker, {**given, "failOnDataLoss": "false"})
    begin = strict.initialOffset()
    end = strict.latestOffset(begin, strict.getDefaultReadLimit())
    planned = lenient.partitions(begin, end)
    delete_before(servers, place, 15)
    with pytest.raises(DataLoss, match="from offset 0 to 14 were deleted"):
        strict.partitions(begin, end)
    for partitions in (planned, lenient.partitions(begin, end)):
        assert [offset for offset, _ in read(lenient, partitions)] == list(range(20, 30))


def test_spark_reads_it(broker: BrokerInThread, spark: semel.spark.Session) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
    frame = spark.read.format("semel").options(**options, minPartitions="5").load()
    rows = frame.select("offset", "value").collect()
    found = sorted((row.offset, None if row.value is None else bytes(row.value)) for row in rows)
    assert found == wanted("read_committed")
