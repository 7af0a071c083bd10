"""The default sink as Spark calls it, without Spark: columns, places, sizes, messages."""

import logging
import pickle
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from semel.client.cluster.blocking import ClientOptions, shared
from semel.client.cluster.group_offsets import group_offsets
from semel.errors import ConfigError, NetworkException
from semel.spark import committing
from semel.spark.marker import BatchBehind, TwoSinks
from semel.spark.source import SemelSource
from semel.spark.task import BatchTooLarge, UnknownBatch
from semel.testing import Broker
from semel.types import TopicPartition
from semel.world import SystemClock
from support import topics

_queries = (f"{number:08x}-0000-0000-0000-000000000000" for number in count(1))
"""Each test works for one of its own, since a query keeps its marker whatever it writes to."""
RUN, LATER_RUN, LATEST_RUN = (f"{number}0000000-0000-0000-0000-000000000000" for number in "234")

# Spark sets it for the session in which the batches of a stream run.
OF_STREAMS = {"spark.sql.streaming.internal.stateStore.partitions": "2"}

TYPES: dict[str, Any] = {
    "binary": "binary",
    "string": "string",
    "int": "integer",
    "long": "long",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "headers": {
        "type": "array",
        "containsNull": True,
        "elementType": {
            "type": "struct",
            "fields": [
                {"name": "key", "type": "string", "nullable": True, "metadata": {}},
                {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
            ],
        },
    },
}


def schema(**columns: str) -> StructType:
    fields = [
        {"name": name, "type": TYPES[kind], "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    built = StructType.fromJson({"type": "struct", "fields": fields})
    assert isinstance(built, StructType)
    return built


def run_as(run_id: str, **more: str) -> None:
    work_for({"sql.streaming.queryId": query(), "spark.jobGroup.id": run_id, **more})


def run_batch(batch_id: int, run_id: str, **more: str) -> None:
    """As a function for `foreachBatch` is run."""
    run_as(run_id, **{"streaming.sql.batchId": str(batch_id), **OF_STREAMS, **more})


def work_for(properties: dict[str, str]) -> None:
    context = TaskContext.__new__(TaskContext)
    context._partitionId, context._localProperties = 0, properties
    TaskContext._setTaskContext(context)


_query: list[str] = []


def query() -> str:
    return _query[-1]


@pytest.fixture(autouse=True)
def in_a_task() -> Iterator[None]:
    _query.append(next(_queries))
    run_as(RUN)
    yield
    TaskContext._setTaskContext(None)
    committing._known.clear()


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(semel_broker.bootstrap_servers, name, 3)
    return name


def source(broker: Broker, **options: str) -> SemelSource:
    names = {name.replace("__", "."): value for name, value in options.items()}
    return SemelSource({"kafka.bootstrap.servers": broker.bootstrap_servers, **names})


def rows(kind: StructType, *values: tuple[Any, ...]) -> pa.RecordBatch:
    columns = list(zip(*values, strict=True))
    arrow = to_arrow_schema(kind, timezone="UTC")
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)],
        schema=arrow,
    )


def write(
    data_source: SemelSource, kind: StructType, *tasks: list[pa.RecordBatch], batch_id: int = 0
) -> list[WriterCommitMessage]:
    """As Spark does it: the writer travels to tasks, their messages to another one."""
    sent = pickle.dumps(data_source.streamWriter(kind, False))
    messages = [pickle.loads(sent).write(iter(batches)) for batches in tasks]
    travelled = pickle.loads(pickle.dumps(messages))
    data_source.streamWriter(kind, False).commit(travelled, batch_id)
    return messages


def test_rows_arrive_with_key_value_and_headers(semel_broker: Broker, topic: str) -> None:
    kind = schema(key="string", value="binary", headers="headers", partition="int")
    batch = rows(
        kind,
        ("k", b"v", [{"key": "h", "value": b"1"}, {"key": "h", "value": None}], 0),
        (None, None, None, 1),
        ("", b"", [], 2),
    )
    write(source(semel_broker, topic=topic), kind, [batch])
    assert topics.committed(semel_broker.bootstrap_servers, topic) == [
        (0, 0, b"k", b"v", (("h", b"1"), ("h", None))),
        (1, 0, None, None, ()),
        (2, 0, b"", b"", ()),
    ]


AT = datetime(2024, 5, 1, 12, 30, 0, 250_999, tzinfo=UTC)
AT_MS = 1_714_566_600_250


@pytest.mark.parametrize(("kind", "at"), [("timestamp", AT), ("long", AT_MS)])
def test_a_column_says_when_a_record_came_about(
    semel_broker: Broker, topic: str, kind: str, at: object
) -> None:
    columns = schema(value="string", timestamp=kind)
    before_ms = SystemClock().wall_ms()
    write(source(semel_broker, topic=topic), columns, [rows(columns, ("then", at), ("now", None))])
    found = topics.times_ms(semel_broker.bootstrap_servers, topic)
    assert found[b"then"] == AT_MS
    assert before_ms <= found[b"now"] <= SystemClock().wall_ms()


def test_columns_that_are_not_written_are_named_once(
    semel_broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    known = {"offset": "long", "timestampType": "int", "topic": "string", "key": "string"}
    kind = schema(value="string", shop="string", price="long", **known)
    with caplog.at_level(logging.WARNING):
        for batch_id in range(2):
            row = ("a", f"shop of {topic}", 1, 0, 0, "", None)
            write(source(semel_broker, topic=topic), kind, [rows(kind, row)], batch_id=batch_id)
    assert [line for line in caplog.messages if "shop" in line] == [
        "columns shop, price are not written: a record has value, key, headers, timestamp, "
        "partition and topic"
    ]


@pytest.mark.parametrize("partitioner", ["murmur2_random", "consistent_random"])
def test_keys_lie_where_other_clients_put_them(
    semel_broker: Broker, topic: str, partitioner: str
) -> None:
    servers = semel_broker.bootstrap_servers
    keys = [b"key %d" % number for number in range(200)]
    other = f"{topic}-other"
    topics.create(servers, other, 3)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "partitioner": partitioner, "log_level": 0}
    )
    for key in keys:
        producer.produce(other, b"", key=key)
    producer.flush()
    kind = schema(key="binary", value="binary")
    sink = source(semel_broker, topic=topic, partitioner=partitioner)
    write(sink, kind, [rows(kind, *((key, b"") for key in keys))])
    placed = {one.key: one.partition for one in topics.committed(servers, topic)}
    assert placed == {one.key: one.partition for one in topics.committed(servers, other)}


def test_rows_without_keys_are_spread(semel_broker: Broker, topic: str) -> None:
    kind = schema(value="string")
    write(source(semel_broker, topic=topic), kind, [rows(kind, *[("x",)] * 9)])
    found = topics.committed(semel_broker.bootstrap_servers, topic)
    assert [one.partition for one in found] == [0] * 3 + [1] * 3 + [2] * 3


def test_tasks_keep_their_order_within_a_partition(semel_broker: Broker, topic: str) -> None:
    kind = schema(value="string", partition="int")
    tasks = [
        [rows(kind, *((f"{task}-{batch}-{row}", 1) for row in range(10))) for batch in range(3)]
        for task in range(4)
    ]
    write(source(semel_broker, topic=topic), kind, *tasks)
    found = [one.value for one in topics.committed(semel_broker.bootstrap_servers, topic)]
    assert found == [
        f"{task}-{batch}-{row}".encode()
        for task in range(4)
        for batch in range(3)
        for row in range(10)
    ]


def test_a_column_may_name_the_topics_of_one_transaction(semel_broker: Broker, topic: str) -> None:
    other = f"{topic}-other"
    topics.create(semel_broker.bootstrap_servers, other)
    kind = schema(topic="string", value="string")
    batch = rows(kind, (topic, "a"), (other, "b"), (topic, "c"))
    write(source(semel_broker, markerTopic=topic), kind, [batch])
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a", b"c"]
    assert topics.values(semel_broker.bootstrap_servers, other) == [b"b"]


def test_topics_that_a_column_names_are_created_and_batches_skipped_whatever_they_name(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers
    first, second = f"{topic}-1", f"{topic}-2"
    kind = schema(topic="string", value="string")
    sink = source(semel_broker, transactionalId=topic)
    write(sink, kind, [rows(kind, (second, "a"), (first, "b"))])
    for run in (RUN, LATER_RUN):
        run_as(run)
        committing._known.clear()
        write(sink, kind, [rows(kind, (second, "c"))], batch_id=1)
    assert topics.values(servers, second) == [b"a", b"c"]
    assert topics.values(servers, first) == [b"b"]
    connected = shared(ClientOptions(servers))
    found = connected.run(group_offsets(connected.cluster, f"semel-{topic}"))
    assert {place: at.offset for place, at in found.items()} == {
        TopicPartition("semel-markers", 0): 2
    }


def test_the_option_wins_over_the_column(semel_broker: Broker, topic: str) -> None:
    kind = schema(topic="string", value="string")
    write(source(semel_broker, topic=topic), kind, [rows(kind, ("elsewhere", "a"))])
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, "a", 0), "column topic is null"),
        (("no topic", "a", 0), "column topic is 'no topic' in a row: "),
        (("__consumer_offsets", "a", 0), "that one is the cluster's own"),
        (("{topic}", "a", 3), "column partition is 3 in a row: .* has 3 partitions"),
        (("{topic}", "a", -2), "column partition is -2"),
    ],
)
def test_rows_that_cannot_be_placed_are_refused(
    semel_broker: Broker, topic: str, row: tuple[str | None, str, int], words: str
) -> None:
    kind = schema(topic="string", value="string", partition="int")
    name = topic if row[0] == "{topic}" else row[0]
    with pytest.raises(ConfigError, match=words):
        write(source(semel_broker, markerTopic=topic), kind, [rows(kind, (name, *row[1:]))])
    assert topics.values(semel_broker.bootstrap_servers, topic) == []


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"key": "string"}, {"topic": "t"}, "column value is missing"),
        ({"value": "int"}, {"topic": "t"}, "column value is int: it has to be string or binary"),
        ({"value": "string", "key": "long"}, {"topic": "t"}, "column key is bigint"),
        ({"value": "string", "partition": "long"}, {"topic": "t"}, "column partition is bigint"),
        ({"value": "string", "headers": "string"}, {"topic": "t"}, "column headers is string"),
        (
            {"value": "string", "timestamp": "string"},
            {"topic": "t"},
            "column timestamp is string: it has to be timestamp, or bigint of milliseconds",
        ),
        (
            {"value": "string", "timestamp": "timestamp_ntz"},
            {"topic": "t"},
            "column timestamp is timestamp_ntz",
        ),
        ({"value": "string"}, {}, "option topic is missing, and there is no column topic"),
        ({"value": "string"}, {"topic": "t", "batchId": "1"}, "batchId is for batch jobs"),
        ({"value": "string"}, {"topic": "t", "topics": "u"}, "did you mean 'topic'"),
    ],
)
def test_a_data_frame_that_cannot_be_written_is_refused_before_anything_runs(
    semel_broker: Broker, columns: dict[str, str], options: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        source(semel_broker, **options).streamWriter(schema(**columns), False)


def test_a_task_without_rows_returns_a_message(semel_broker: Broker, topic: str) -> None:
    kind = schema(value="string")
    empty, full = write(source(semel_broker, topic=topic), kind, [], [rows(kind, ("a",))])
    assert isinstance(empty, WriterCommitMessage)
    assert isinstance(full, WriterCommitMessage)
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a"]


def test_a_batch_without_tasks_writes_nothing(semel_broker: Broker, topic: str) -> None:
    write(source(semel_broker, topic=topic), schema(value="string"))
    assert topics.values(semel_broker.bootstrap_servers, topic) == []


def test_too_much_for_the_driver_is_refused_with_the_option_to_lower(
    semel_broker: Broker, topic: str
) -> None:
    kind = schema(value="binary")
    options = {"topic": topic, "maxEncodedBytes": "10k", "kafka__compression__type": "none"}
    half = rows(kind, (bytes(6000),))
    with pytest.raises(BatchTooLarge, match=r"maxOffsetsPerTrigger .*spark\.driver\.maxResultSize"):
        write(source(semel_broker, **options), kind, [half, half])
    with pytest.raises(BatchTooLarge):
        write(source(semel_broker, **options), kind, [half], [half])
    assert topics.values(semel_broker.bootstrap_servers, topic) == []


def test_abort_has_nothing_to_undo(semel_broker: Broker, topic: str) -> None:
    kind = schema(value="string")
    data_source = source(semel_broker, topic=topic)
    sent = pickle.dumps(data_source.streamWriter(kind, False))
    message = pickle.loads(sent).write(iter([rows(kind, ("a",))]))
    data_source.streamWriter(kind, False).abort([message, None], 0)
    assert topics.values(semel_broker.bootstrap_servers, topic) == []


def test_all_tasks_of_a_batch_count_the_partitions_alike(semel_broker: Broker, topic: str) -> None:
    servers = semel_broker.bootstrap_servers
    kind = schema(key="string", value="string")
    sent = pickle.dumps(source(semel_broker, topic=topic).streamWriter(kind, False))
    batch = rows(kind, *((f"k{number}", "v") for number in range(50)))
    early = pickle.loads(sent).write(iter([batch]))
    topics.grow(servers, topic, 7)
    late = pickle.loads(sent).write(iter([batch]))
    places = [[place for place, _ in message.batches] for message in (early, late)]
    assert places[0] == places[1]


def test_a_broker_that_is_down_is_told_by_its_address_before_anything_is_pickled() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    options = {"kafka.bootstrap.servers": address, "kafka.request.timeout.ms": "100"}
    data_source = SemelSource({**options, "topic": "t"})
    with pytest.raises(NetworkException, match=address):
        data_source.streamWriter(schema(value="string"), False)


def save(data_source: SemelSource, *values: str, topic: str | None = None) -> None:
    """As `df.write` does it: the writer travels to the tasks, and to the commit."""
    kind = schema(value="string") if topic is None else schema(value="string", topic="string")
    sent = pickle.dumps(data_source.writer(kind, False))
    batch = rows(kind, *((value,) if topic is None else (value, topic) for value in values))
    message = pickle.loads(sent).write(iter([batch]))
    pickle.loads(sent).commit(pickle.loads(pickle.dumps([message])))


def test_a_batch_job_is_one_transaction(semel_broker: Broker, topic: str) -> None:
    work_for({})
    kind = schema(value="string")
    writer = source(semel_broker, topic=topic).writer(kind, False)
    message = pickle.loads(pickle.dumps(writer)).write(iter([rows(kind, ("a",), ("b",))]))
    assert topics.values(semel_broker.bootstrap_servers, topic) == []
    pickle.loads(pickle.dumps(writer)).commit([message])
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a", b"b"]


def test_batch_jobs_of_one_topic_do_not_know_of_each_other(
    semel_broker: Broker, topic: str
) -> None:
    work_for({})
    for value in ("a", "a"):
        save(source(semel_broker, topic=topic), value)
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a", b"a"]


def test_a_batch_job_with_a_number_is_written_once(semel_broker: Broker, topic: str) -> None:
    work_for({})
    for batch_id, value in ((0, "a"), (0, "a"), (1, "b"), (1, "b")):
        options = {"topic": topic, "transactionalId": topic, "batchId": str(batch_id)}
        save(source(semel_broker, **options), value)
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a", b"b"]


def test_a_batch_job_within_a_micro_batch_is_written_once(semel_broker: Broker, topic: str) -> None:
    for run, batch_id, value in ((RUN, 0, "a"), (LATER_RUN, 0, "a"), (LATER_RUN, 1, "b")):
        run_batch(batch_id, run)
        save(source(semel_broker, topic=topic), value)
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a", b"b"]
    connected = shared(ClientOptions(semel_broker.bootstrap_servers))
    group = f"semel-{query()}-{topic}"
    found = connected.run(group_offsets(connected.cluster, group))
    assert {place: at.offset for place, at in found.items()} == {
        TopicPartition("semel-markers", 0): 2
    }


def test_several_topics_of_one_micro_batch_are_each_written_once(
    semel_broker: Broker, topic: str
) -> None:
    other = f"{topic}-other"
    for run, is_last in ((RUN, False), (LATER_RUN, True)):
        run_batch(0, run)
        save(source(semel_broker, topic=topic), "a")
        if is_last:  # The first run died in between.
            save(source(semel_broker, topic=other), "a")
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a"]
    assert topics.values(semel_broker.bootstrap_servers, other) == [b"a"]


def test_two_batch_jobs_for_one_topic_within_a_micro_batch_need_names(
    semel_broker: Broker, topic: str
) -> None:
    for run in (RUN, LATER_RUN):
        run_batch(0, run)
        save(source(semel_broker, topic=topic), "first")
        with pytest.raises(TwoSinks, match="give the second a name of its own"):
            save(source(semel_broker, topic=topic), "second")
        save(source(semel_broker, topic=topic, name="second"), "second")
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"first", b"second"]


def test_two_batch_jobs_need_names_also_where_the_function_names_its_jobs_itself(
    semel_broker: Broker, topic: str
) -> None:
    """Spark's name for the run is that of the jobs, unless a function has set another."""
    for execution in ("7", "0", "3"):
        more = {"spark.app.id": "local-1", "spark.sql.execution.root.id": execution}
        run_batch(0, "the user's own", **more)
        save(source(semel_broker, topic=topic), "first")
        committing._known.clear()
        with pytest.raises(TwoSinks, match="give the second a name of its own"):
            save(source(semel_broker, topic=topic), "second")
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"first"]


def test_topics_of_a_batch_job_within_a_micro_batch_may_come_from_a_column(
    semel_broker: Broker, topic: str
) -> None:
    for run in (RUN, LATER_RUN):
        run_batch(0, run)
        save(source(semel_broker), "a", topic=topic)
        with pytest.raises(TwoSinks):
            save(source(semel_broker), "b", topic=f"{topic}-other")
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a"]


def test_a_batch_job_of_a_stream_that_does_not_know_its_micro_batch_is_refused(
    semel_broker: Broker, topic: str
) -> None:
    work_for(OF_STREAMS)
    with pytest.raises(UnknownBatch, match="inheritable_thread_target"):
        save(source(semel_broker, topic=topic), "a")
    assert topics.values(semel_broker.bootstrap_servers, topic) == []
    save(source(semel_broker, topic=topic, transactionalId=topic, batchId="0"), "b")
    save(source(semel_broker, topic=topic, delivery="at-least-once"), "c")
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"b", b"c"]


def test_a_batch_job_within_a_micro_batch_may_ask_for_at_least_once(
    semel_broker: Broker, topic: str
) -> None:
    for run in (RUN, LATER_RUN):
        run_batch(0, run)
        save(source(semel_broker, topic=topic, delivery="at-least-once"), "a")
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a", b"a"]


def test_a_batch_job_that_is_told_of_the_checkpoint_refuses_one_that_was_rolled_back(
    semel_broker: Broker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "offsets").mkdir()

    def save_after(offset: int, value: str) -> None:
        """The first batch, which ends at this offset in what it reads."""
        (tmp_path / "offsets" / "0").write_text(f'v1\n{{}}\n{{"{topic}": {{"0": {offset}}}}}\n')
        save(source(semel_broker, topic=topic, checkpointLocation=tmp_path.as_uri()), value)

    for run in (RUN, LATER_RUN):
        run_batch(0, run)
        save_after(12, "a")
    run_batch(0, LATEST_RUN)
    with pytest.raises(BatchBehind, match="its checkpoint was rolled back"):
        save_after(13, "b")
    assert topics.values(semel_broker.bootstrap_servers, topic) == [b"a"]


def test_a_batch_job_without_tasks_writes_nothing(semel_broker: Broker, topic: str) -> None:
    options = {"topic": topic, "transactionalId": topic, "batchId": "0"}
    source(semel_broker, **options).writer(schema(value="string"), False).commit([])
    assert topics.values(semel_broker.bootstrap_servers, topic) == []


def test_what_a_batch_job_cannot_ask_for(semel_broker: Broker, topic: str) -> None:
    kind = schema(value="string")
    with pytest.raises(ConfigError, match="cannot be overwritten"):
        source(semel_broker, topic=topic).writer(kind, True)
    with pytest.raises(ConfigError, match="batchId needs transactionalId"):
        source(semel_broker, topic=topic, batchId="1").writer(kind, False)


def test_consumed_offsets_come_from_the_checkpoint(
    semel_broker: Broker, topic: str, tmp_path: Any
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(
        f'v1\n{{"batchWatermarkMs":0}}\n{{"{topic}": {{"0": 12, "1": 7}}}}\n{{"logOffset": 3}}\n-\n'
    )
    kind = schema(value="string")
    options = {"topic": topic, "checkpointLocation": tmp_path.as_uri(), "offsetsGroup": topic}
    write(source(semel_broker, **options), kind, [rows(kind, ("a",))])
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": semel_broker.bootstrap_servers, "group.id": topic, "log_level": 0}
    )
    places = [confluent_kafka.TopicPartition(topic, number) for number in range(3)]
    found = [place.offset for place in consumer.committed(places, 30)]
    consumer.close()
    assert found == [12, 7, confluent_kafka.OFFSET_INVALID]
