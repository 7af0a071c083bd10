"""The streaming source as Spark calls it, without Spark: what is planned, read and refused."""

import base64
import json
import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.spark import source
from semel.spark.bounds import stream_start
from semel.spark.data_loss import DataLoss
from semel.spark.source import SemelSource
from semel.spark.source_settings import source_options, source_settings
from semel.spark.stream_reader import StreamReader
from semel.testing import Broker
from support import topics

HOUR_MS = 3_600_000
EARLIEST = {"startingOffsets": "earliest"}


class SetClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def wall_ms(self) -> int:
        return -self.ms

    def monotonic_ms(self) -> int:
        return self.ms


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(semel_broker.bootstrap_servers, name, 2)
    return name


def reader(broker: Broker, clock: SetClock | None = None, /, **given: str) -> StreamReader:
    options = source_options(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            **{name.replace("__", "."): value for name, value in given.items()},
        }
    )
    return StreamReader(source_settings(options), stream_start(options), clock)


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(first, first + count)]


def read(source: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    """The values of a micro-batch, as tasks in other processes would read them."""
    values: list[bytes] = []
    for partition in pickle.loads(pickle.dumps(source.partitions(start, end))):
        task = pickle.loads(pickle.dumps(source))
        for batch in task.read(partition):
            values += batch.column("value").to_pylist()
    return values


def latest(source: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return source.latestOffset(start, source.getDefaultReadLimit())


def offsets(reached: dict[str, Any] | None) -> dict[str, Any]:
    """As anyone reads them who knows nothing of the ids of topics."""
    return {topic: partitions for topic, partitions in (reached or {}).items() if partitions}


def test_a_stream_begins_at_the_end_unless_told_otherwise(semel_broker: Broker, topic: str) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(5))
    assert offsets(reader(semel_broker, subscribe=topic).initialOffset()) == {
        topic: {"0": 5, "1": 0}
    }
    source = reader(semel_broker, subscribe=topic, startingOffsets="earliest")
    assert offsets(source.initialOffset()) == {topic: {"0": 0, "1": 0}}


def test_offsets_by_partition_may_name_both_ends(semel_broker: Broker, topic: str) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(5))
    for said, offset in ((3, 3), (-1, 5), (-2, 0)):
        places = f'{{"{topic}": {{"0": {said}, "1": 0}}}}'
        source = reader(semel_broker, subscribe=topic, startingOffsets=places)
        assert offsets(source.initialOffset()) == {topic: {"0": offset, "1": 0}}


def test_a_partition_that_is_not_said_is_asked_for(semel_broker: Broker, topic: str) -> None:
    source = reader(semel_broker, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 3}}}}')
    with pytest.raises(ConfigError, match=f"{topic}-1 is missing"):
        source.initialOffset()


def test_times_find_the_first_record_as_young(semel_broker: Broker, topic: str) -> None:
    servers = semel_broker.bootstrap_servers
    for partition in (0, 1):
        topics.fill(servers, topic, numbered(3), partition, timestamps_ms=[1000, 2000, 3000])
    everywhere = reader(semel_broker, subscribe=topic, startingTimestamp="1500")
    assert offsets(everywhere.initialOffset()) == {topic: {"0": 1, "1": 1}}
    each = f'{{"{topic}": {{"0": 2500, "1": 1000}}}}'
    by_partition = reader(semel_broker, subscribe=topic, startingOffsetsByTimestamp=each)
    assert offsets(by_partition.initialOffset()) == {topic: {"0": 2, "1": 0}}


def test_a_time_that_nothing_is_as_young_as_is_refused_or_the_end(
    semel_broker: Broker, topic: str
) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(3))
    with pytest.raises(ConfigError, match="startingOffsetsByTimestampStrategy to latest"):
        reader(semel_broker, subscribe=topic, startingTimestamp="9999999999999").initialOffset()
    source = reader(
        semel_broker,
        subscribe=topic,
        startingTimestamp="9999999999999",
        startingOffsetsByTimestampStrategy="latest",
    )
    assert offsets(source.initialOffset()) == {topic: {"0": 3, "1": 0}}


def test_topics_are_found_by_pattern_and_partitions_one_by_one(
    semel_broker: Broker, topic: str
) -> None:
    other = f"{topic}-other"
    topics.create(semel_broker.bootstrap_servers, other)
    by_pattern = reader(semel_broker, subscribePattern=f"{topic}.*", startingOffsets="earliest")
    assert set(offsets(by_pattern.initialOffset())) == {topic, other}
    assigned = reader(semel_broker, assign=f'{{"{topic}": [1]}}', startingOffsets="earliest")
    assert offsets(assigned.initialOffset()) == {topic: {"1": 0}}


def test_a_topic_that_does_not_exist_is_named(semel_broker: Broker) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="topic nowhere does not exist"):
        reader(semel_broker, subscribe="nowhere").initialOffset()


def test_each_batch_goes_on_where_the_last_one_ended(semel_broker: Broker, topic: str) -> None:
    source = reader(semel_broker, subscribe=topic, startingOffsets="earliest")
    start, seen = source.initialOffset(), []
    for first in (0, 10, 20):
        topics.fill(semel_broker.bootstrap_servers, topic, numbered(10, first))
        end = latest(source, start)
        seen += read(source, start, end)
        start = end
    assert seen == numbered(30)
    assert offsets(source.reportLatestOffset()) == {topic: {"0": 30, "1": 0}}
    assert source.partitions(start, start) == []


def test_open_transactions_bound_what_is_planned_and_aborted_ones_are_left_out(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers
    source = reader(semel_broker, subscribe=topic, startingOffsets="earliest")
    start = source.initialOffset()
    topics.fill(servers, topic, [b"plain"])
    with topics.transaction(servers, f"{topic}-aborted") as aborted:
        topics.fill_transaction(aborted, topic, [b"aborted"] * 3)
        aborted.abort_transaction()
    with topics.transaction(servers, f"{topic}-open") as waiting:
        topics.fill_transaction(waiting, topic, [b"committed"])
        topics.fill(servers, topic, [b"behind"])
        # The record, three aborted ones and their marker; not what stands behind the open one.
        end = latest(source, start)
        assert offsets(end) == {topic: {"0": 5, "1": 0}}
        assert read(source, start, end) == [b"plain"]
        waiting.commit_transaction()
    rest = latest(source, end)
    assert offsets(rest) == {topic: {"0": 8, "1": 0}}
    assert read(source, end, rest) == [b"committed", b"behind"]


def test_read_uncommitted_reads_everything(semel_broker: Broker, topic: str) -> None:
    servers = semel_broker.bootstrap_servers
    source = reader(
        semel_broker,
        subscribe=topic,
        startingOffsets="earliest",
        kafka__isolation__level="read_uncommitted",
    )
    start = source.initialOffset()
    with topics.transaction(servers, f"{topic}-aborted") as aborted:
        topics.fill_transaction(aborted, topic, [b"aborted"])
        aborted.abort_transaction()
    assert read(source, start, latest(source, start)) == [b"aborted"]


def test_a_batch_has_at_most_so_many_offsets(semel_broker: Broker, topic: str) -> None:
    servers = semel_broker.bootstrap_servers
    topics.fill(servers, topic, numbered(90), 0)
    topics.fill(servers, topic, numbered(10), 1)
    source = reader(
        semel_broker, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    start = source.initialOffset()
    assert offsets(latest(source, start)) == {topic: {"0": 18, "1": 2}}
    # Spark asks for everything where the trigger says so.
    assert offsets(source.latestOffset(start, ReadAllAvailable())) == {topic: {"0": 90, "1": 10}}


def test_a_batch_has_at_most_about_so_many_bytes(semel_broker: Broker, topic: str) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, [bytes(1000)] * 200)
    source = reader(
        semel_broker, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="50k"
    )
    planned = latest(source, source.initialOffset())[topic]["0"]
    assert 40 <= planned <= 51


def test_few_records_wait_for_others_until_the_delay_is_over(
    semel_broker: Broker, topic: str
) -> None:
    servers, clock = semel_broker.bootstrap_servers, SetClock()
    source = reader(
        semel_broker,
        clock,
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="1h",
    )
    topics.fill(servers, topic, numbered(3))
    start = latest(source, source.initialOffset())
    assert offsets(start) == {topic: {"0": 3, "1": 0}}
    topics.fill(servers, topic, numbered(9))
    assert latest(source, start) == start
    topics.fill(servers, topic, numbered(1))
    enough = latest(source, start)
    assert offsets(enough) == {topic: {"0": 13, "1": 0}}
    topics.fill(servers, topic, numbered(1))
    clock.ms += HOUR_MS - 1
    assert latest(source, enough) == enough
    clock.ms += 1
    assert offsets(latest(source, enough)) == {topic: {"0": 14, "1": 0}}


@pytest.mark.parametrize(
    ("option", "value", "limit"),
    [
        ("maxOffsetsPerTrigger", "7", ReadMaxRows(7)),
        ("minOffsetsPerTrigger", "7", ReadMinRows(7)),
        ("maxBytesPerTrigger", "7k", ReadMaxBytes(7 * 1024)),
    ],
)
def test_spark_is_told_of_the_limit(
    semel_broker: Broker, option: str, value: str, limit: ReadLimit
) -> None:
    assert reader(semel_broker, subscribe="t", **{option: value}).getDefaultReadLimit() == limit
    assert reader(semel_broker, subscribe="t").getDefaultReadLimit() == ReadAllAvailable()


def test_available_now_ends_where_the_topic_ended_at_the_beginning(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers
    topics.fill(servers, topic, numbered(10))
    source = reader(
        semel_broker,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="6",
        minOffsetsPerTrigger="5",
    )
    source.prepareForTriggerAvailableNow()
    start = source.initialOffset()
    topics.fill(servers, topic, numbered(10))
    first = latest(source, start)
    assert offsets(first) == {topic: {"0": 6, "1": 0}}
    # Fewer than the least that a batch should have: nobody would come to add to them.
    second = latest(source, first)
    assert offsets(second) == {topic: {"0": 10, "1": 0}}
    assert latest(source, second) == second


def test_partitions_that_are_added_are_read_from_their_beginning(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers
    source = reader(semel_broker, subscribe=topic)
    start = source.initialOffset()
    topics.grow(servers, topic, 3)
    topics.fill(servers, topic, numbered(5), 2)
    end = latest(source, start)
    assert offsets(end) == {topic: {"0": 0, "1": 0, "2": 5}}
    assert read(source, start, end) == numbered(5)


def test_ranges_are_cut_for_as_many_tasks_as_wanted(semel_broker: Broker, topic: str) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(1000))
    source = reader(semel_broker, subscribe=topic, startingOffsets="earliest", minPartitions="8")
    start = source.initialOffset()
    end = latest(source, start)
    assert len(source.partitions(start, end)) == 8
    assert read(source, start, end) == numbered(1000)


def test_no_task_has_more_records_than_wanted(semel_broker: Broker, topic: str) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(1000))
    source = reader(semel_broker, subscribe=topic, maxRecordsPerPartition="300", **EARLIEST)
    start = source.initialOffset()
    end = latest(source, start)
    sizes = [sum(one.num_rows for one in source.read(p)) for p in source.partitions(start, end)]
    assert sizes == [250] * 4
    assert read(source, start, end) == numbered(1000)


def test_records_that_were_deleted_unread_are_an_error_that_says_which(
    semel_broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    servers = semel_broker.bootstrap_servers
    topics.fill(servers, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    source = reader(semel_broker, **options)
    start = source.initialOffset()
    end = latest(source, start)
    topics.delete_records(servers, topic, 4)
    with pytest.raises(DataLoss, match=f"{topic}-0 from offset 0 to 3 .*failOnDataLoss to false"):
        source.partitions(start, end)
    lenient = reader(semel_broker, **options, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert read(lenient, start, end) == numbered(6, 4)
    assert "goes on without them" in caplog.text


def test_records_that_are_deleted_while_a_task_begins_are_noticed_there(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers
    topics.fill(servers, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    for strict in (True, False):
        source = reader(semel_broker, **options, failOnDataLoss=str(strict).lower())
        start = source.initialOffset()
        (task,) = source.partitions(start, latest(source, start))
        topics.delete_records(servers, topic, 4 if strict else 8)
        if strict:
            with pytest.raises(DataLoss, match="retention has removed it"):
                list(source.read(task))
        else:
            assert [batch.num_rows for batch in source.read(task)] == [2]


def test_a_topic_that_is_deleted_is_an_error_that_says_how_far_it_was_read(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers
    other = f"{topic}-other"
    topics.create(servers, other)
    topics.fill(servers, other, numbered(3))
    options = {"subscribePattern": f"{topic}.*", "startingOffsets": "latest"}
    start = reader(semel_broker, **options).initialOffset()
    topics.delete(servers, other)
    with pytest.raises(DataLoss, match=rf"{other}-0 \(read up to offset 3\)"):
        latest(reader(semel_broker, **options), start)
    lenient = reader(semel_broker, **options, failOnDataLoss="false")
    assert offsets(latest(lenient, start)) == {topic: {"0": 0, "1": 0}}


def test_a_beginning_behind_the_end_is_told_to_be_one(semel_broker: Broker, topic: str) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(3))
    beyond = f'{{"{topic}": {{"0": 99, "1": 0}}}}'
    source = reader(semel_broker, subscribe=topic, startingOffsets=beyond)
    start = source.initialOffset()
    with pytest.raises(DataLoss, match="unless startingOffsets lies behind the end"):
        source.partitions(start, latest(source, start))


def remake(broker: Broker, topic: str, count: int) -> None:
    topics.delete(broker.bootstrap_servers, topic)
    topics.create(broker.bootstrap_servers, topic, 2)
    topics.fill(broker.bootstrap_servers, topic, numbered(count))


@pytest.mark.parametrize("count", [3, 10, 12])
def test_a_topic_that_was_made_again_is_noticed_however_many_records_it_has(
    semel_broker: Broker, topic: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(10))
    start = reader(semel_broker, subscribe=topic).initialOffset()
    remake(semel_broker, topic, count)
    told = rf"{topic} was deleted and created again.* {topic}-0 \(read up to offset 10\)"
    with pytest.raises(DataLoss, match=told):
        latest(reader(semel_broker, subscribe=topic), start)
    lenient = reader(semel_broker, subscribe=topic, failOnDataLoss="false")
    end = latest(lenient, start)
    assert "was deleted and created again" in caplog.text
    assert read(lenient, start, end) == numbered(count)
    # A batch that was planned so is read so when it is run again, and told once.
    assert read(reader(semel_broker, subscribe=topic), start, end) == numbered(count)
    assert latest(reader(semel_broker, subscribe=topic), end) == end


def test_a_topic_that_is_made_again_while_the_query_runs_is_noticed(
    semel_broker: Broker, topic: str
) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(10))
    source = reader(semel_broker, subscribe=topic, maxOffsetsPerTrigger="6", **EARLIEST)
    start = source.initialOffset()
    end = latest(source, start)
    remake(semel_broker, topic, 12)
    with pytest.raises(DataLoss, match=f"again, and with it the records of {topic}-0 from offset"):
        source.partitions(start, end)
    with pytest.raises(DataLoss, match="created again"):
        latest(source, end)
    lenient = reader(semel_broker, subscribe=topic, failOnDataLoss="false", **EARLIEST)
    assert read(lenient, start, end) == []
    assert read(lenient, end, latest(lenient, end)) == numbered(12)


def test_a_topic_that_is_made_again_before_a_task_begins_is_noticed_there(
    semel_broker: Broker, topic: str
) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(10))
    for strict in (True, False):
        given = {"failOnDataLoss": str(strict).lower(), **EARLIEST}
        source = reader(semel_broker, subscribe=topic, **given)
        start = source.initialOffset()
        (task,) = source.partitions(start, latest(source, start))
        remake(semel_broker, topic, 12)
        if strict:
            with pytest.raises(DataLoss, match="which this micro-batch was to read"):
                list(source.read(task))
        else:
            assert list(source.read(task)) == []


def test_a_topic_that_is_made_again_while_a_task_reads_fails_the_task(
    semel_broker: Broker, topic: str
) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(10))
    source = reader(semel_broker, subscribe=topic, failOnDataLoss="false", **EARLIEST)
    start = source.initialOffset()
    (task,) = source.partitions(start, latest(source, start))
    batches = source.read(task)
    assert next(batches).num_rows == 10
    remake(semel_broker, topic, 12)
    with pytest.raises(DataLoss, match="which this micro-batch was to read"):
        list(batches)


def test_a_checkpoint_without_ids_is_continued_and_has_them_from_then_on(
    semel_broker: Broker, topic: str
) -> None:
    topics.fill(semel_broker.bootstrap_servers, topic, numbered(10))
    # As Spark's own source writes it, and Semel before it knew of ids.
    start = {topic: {"0": 4, "1": 0}}
    source = reader(semel_broker, subscribe=topic)
    end = latest(source, start)
    assert read(source, start, end) == numbered(6, 4)
    assert offsets(end) == {topic: {"0": 10, "1": 0}}
    with_ids = latest(source, offsets(end))
    assert with_ids == end
    assert source.partitions(offsets(end), with_ids) == []
    remake(semel_broker, topic, 12)
    with pytest.raises(DataLoss, match="created again"):
        latest(source, end)


def test_offsets_with_ids_say_the_same_to_whoever_knows_nothing_of_them(
    semel_broker: Broker, topic: str
) -> None:
    reached = json.loads(json.dumps(reader(semel_broker, subscribe=topic).initialOffset()))
    (named,) = reached.keys() - {topic}
    name, _, topic_id = named.partition("@")
    assert (name, reached[named]) == (topic, {})
    assert len(base64.urlsafe_b64decode(f"{topic_id}==")) == 16
    # So may a user say where to begin.
    copied = reader(semel_broker, subscribe=topic, startingOffsets=json.dumps(reached))
    assert copied.initialOffset() == reached


def test_a_topic_that_is_no_longer_subscribed_is_not_lost(
    semel_broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{topic}-other"
    topics.create(semel_broker.bootstrap_servers, other)
    for name in (topic, other):
        topics.fill(semel_broker.bootstrap_servers, name, numbered(3))
    source = reader(semel_broker, subscribe=f"{topic},{other}", **EARLIEST)
    start = source.initialOffset()
    end = latest(source, start)
    for remaining in (
        {"subscribe": topic},
        {"subscribePattern": f"{topic}$"},
        {"assign": f'{{"{topic}": [0, 1]}}'},
    ):
        caplog.clear()
        fewer = reader(semel_broker, **remaining)
        assert offsets(latest(fewer, end)) == {topic: {"0": 3, "1": 0}}
        assert f"{other}-0: no longer among what this query reads" in caplog.text
        # The batch that was under way is read as it was planned.
        assert read(fewer, start, end) == numbered(3) * 2


def test_columns_are_those_of_sparks_kafka_source(semel_broker: Broker, topic: str) -> None:
    given = {"kafka.bootstrap.servers": semel_broker.bootstrap_servers, "subscribe": topic}
    plain = SemelSource(given).schema()
    assert plain.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    assert SemelSource({**given, "includeHeaders": "true"}).schema()["headers"].simpleString() == (
        "headers:array<struct<key:string,value:binary>>"
    )


def test_a_reader_that_could_not_be_made_says_why_whatever_it_is_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"kafka.bootstrap.servers": "nobody:9", "subscribe": "t", "endingOffsets": "latest"}
    made = SemelSource(given)
    with pytest.raises(ConfigError, match="a stream has no end"):
        made.streamReader(made.schema())
    # In the process that has it, Spark would tell of what it has not got.
    monkeypatch.setattr(source, "is_of_spark", lambda module: True)
    refused = made.streamReader(made.schema())
    for ask in (
        refused.initialOffset,
        lambda: refused.latestOffset({}, ReadAllAvailable()),
        lambda: refused.partitions({}, {}),
    ):
        with pytest.raises(ConfigError, match="a stream has no end"):
            ask()
