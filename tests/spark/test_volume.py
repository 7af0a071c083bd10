"""`exactly_once` in foreachBatch: tasks write, and a batch that fails is run again as a whole."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import semel.spark
from semel.client.admin.transactions import describe
from semel.client.cluster.blocking import shared
from semel.errors import ConfigError
from semel.spark import Session
from semel.spark.volume import ExactlyOnce
from semel.spark.volume_tasks import Writing
from semel.testing import Broker
from semel.world import SystemClock
from spark import outlived, queries
from support import looking, topics

pytestmark = pytest.mark.timeout(300)

VALUES = [b"%04d" % number for number in range(600)]
BATCHES = {"maxOffsetsPerTrigger": "200"}
SHORT = {"kafka.transaction.timeout.ms": "8000"}
"""Waited for once, and kept by a batch also on a machine that has much else to do."""


@pytest.fixture
def orders(semel_broker: Broker, name: str) -> str:
    """A topic with 600 records in two partitions, which make three micro-batches."""
    servers, topic = semel_broker.bootstrap_servers, f"{name}-in"
    topics.create(servers, topic, 2)
    for partition in (0, 1):
        topics.fill(servers, topic, VALUES[partition::2], partition)
    topics.create(servers, name, 3)
    return topic


def values(spark: Session, topic: str) -> list[bytes]:
    return topics.values(spark.bootstrap_servers, topic)


def test_batches_are_written_once_and_skipped_before_they_are_computed(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    computed: list[int] = []

    def noted(frame: DataFrame, batch_id: int) -> DataFrame:
        computed.append(batch_id)
        return frame

    for _ in range(2):
        sink = semel.spark.exactly_once(noted, topic=name, offsets_group=name)
        stream = queries.stream(spark, orders, **BATCHES)
        queries.finish(stream.writeStream.foreachBatch(sink), tmp_path)
        queries.forget_commits(tmp_path, 2)
    assert computed == [0, 1, 2]
    assert values(spark, name) == VALUES
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": spark.bootstrap_servers, "group.id": name, "log_level": 0}
    )
    places = [confluent_kafka.TopicPartition(orders, number) for number in range(2)]
    found = [place.offset for place in consumer.committed(places, 30)]
    consumer.close()
    assert found == [300, 300]


def test_several_topics_appear_together(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def both(frame: DataFrame, batch_id: int) -> dict[str, DataFrame]:
        even = frame.where("int(string(value)) % 2 = 0")
        return {name: frame, f"{name}-even": even.selectExpr("value", "0 AS partition")}

    for _ in range(2):
        sink = semel.spark.exactly_once(both)
        queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(sink), tmp_path)
        queries.forget_commits(tmp_path, 0)
    assert values(spark, name) == VALUES
    assert values(spark, f"{name}-even") == VALUES[::2]


def test_a_column_says_when_records_came_about_in_whatever_type(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    at_ms = 1_714_566_600_250

    def both(frame: DataFrame, batch_id: int) -> dict[str, DataFrame]:
        return {
            name: frame.selectExpr("value", f"timestamp_millis({at_ms}) AS timestamp").limit(1),
            f"{name}-long": frame.selectExpr("value", f"{at_ms}L AS timestamp").limit(1),
            f"{name}-now": frame.limit(1),
        }

    before_ms = SystemClock().wall_ms()
    sink = semel.spark.exactly_once(both)
    queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(sink), tmp_path)
    for topic in (name, f"{name}-long"):
        assert list(topics.times_ms(spark.bootstrap_servers, topic).values()) == [at_ms]
    (now_ms,) = topics.times_ms(spark.bootstrap_servers, f"{name}-now").values()
    assert before_ms <= now_ms <= SystemClock().wall_ms()


def test_the_topic_of_the_marker_is_created_also_if_no_row_goes_there(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    sink = semel.spark.exactly_once(lambda frame, _: {name: frame}, topic=f"{name}-marker")
    queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(sink), tmp_path)
    assert values(spark, name) == VALUES
    assert values(spark, f"{name}-marker") == []


def test_a_function_that_gives_nothing_to_write_is_told_what_to_return(
    spark: Session, orders: str, tmp_path: Path
) -> None:
    sink = semel.spark.exactly_once(lambda frame, batch_id: None, topic="t")  # type: ignore[arg-type, return-value]
    with pytest.raises(StreamingQueryException, match="returned NoneType: it has to return the"):
        queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(sink), tmp_path)


def test_there_may_be_more_tasks_than_can_run_at_once_and_tasks_without_rows(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def spread(frame: DataFrame, batch_id: int) -> DataFrame:
        # Of the second batch nothing is left, but its number.
        return frame.repartition(7).where(f"int(string(value)) % 5 = 0 AND {batch_id} != 1")

    for _ in range(2):
        sink = semel.spark.exactly_once(spread, topic=name)
        stream = queries.stream(spark, orders, **BATCHES)
        queries.finish(stream.writeStream.foreachBatch(sink), tmp_path)
        queries.forget_commits(tmp_path, 1)
    first, third = VALUES[:200], VALUES[400:]
    assert values(spark, name) == [value for value in first + third if int(value) % 5 == 0]


def test_turns_are_asked_for_at_the_first_free_port_from_the_one_that_was_given(
    spark: Session, orders: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []

    def noted(sink: ExactlyOnce, writing: Writing) -> Any:
        ports.append(writing.turns.port)
        return writing.__call__

    monkeypatch.setattr(ExactlyOnce, "_stage", noted)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sink = semel.spark.exactly_once(topic=name, driver_port=port)
        queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(sink), tmp_path)
    assert values(spark, name) == VALUES
    assert len(ports) == 1
    assert ports[0] in range(port + 1, port + 17)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=f"driver_port is {port}"):
        semel.spark.exactly_once(topic="t", driver_port=port)


def test_a_task_that_fails_after_writing_has_the_batch_run_again(
    spark: Session, orders: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = tmp_path / "failed"

    def failing(sink: ExactlyOnce, stage: Writing) -> Any:
        def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from stage(batches)
            if not failed.exists():
                failed.touch()
                raise RuntimeError("a task dies after it has written")

        return fail_once

    monkeypatch.setattr(ExactlyOnce, "_stage", failing)
    sink = semel.spark.exactly_once(topic=name)
    stream = queries.stream(spark, orders, **BATCHES)
    queries.finish(stream.writeStream.foreachBatch(sink), tmp_path / "checkpoint")
    assert failed.exists()
    assert values(spark, name) == VALUES


def test_a_driver_that_outlives_its_transaction_runs_the_batch_again_and_goes_on(
    spark: Session, orders: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlived.delay(monkeypatch, "send_offsets", outlived.timed_out)
    sink = semel.spark.exactly_once(topic=name, options=SHORT)
    stream = queries.stream(spark, orders, **BATCHES)
    query = queries.finish(stream.writeStream.foreachBatch(sink), tmp_path)
    assert queries.batch_count(query) == 3
    assert values(spark, name) == VALUES


def test_a_task_that_outlives_its_transaction_has_the_batch_run_again(
    spark: Session, orders: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = tmp_path / "waited"

    def slow(sink: ExactlyOnce, stage: Writing) -> Any:
        def outlive_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() == 1 and not waited.exists():
                connected = shared(stage.settings.client)
                state = "Ongoing"
                while state != "CompleteAbort":
                    found = describe(connected.cluster, stage.transactional_id)
                    state = connected.run(found).state
                waited.touch()
            yield from stage(batches)

        return outlive_once

    monkeypatch.setattr(ExactlyOnce, "_stage", slow)
    sink = semel.spark.exactly_once(topic=name, options=SHORT)
    stream = queries.stream(spark, orders, **BATCHES)
    query = queries.finish(stream.writeStream.foreachBatch(sink), tmp_path / "checkpoint")
    assert waited.exists()
    assert queries.batch_count(query) == 3
    assert values(spark, name) == VALUES


def test_a_batch_that_always_fails_leaves_nothing_that_readers_wait_for(
    spark: Session, orders: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(sink: ExactlyOnce, stage: Writing) -> Any:
        def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from stage(batches)
            raise RuntimeError("a task always dies")

        return fail

    monkeypatch.setattr(ExactlyOnce, "_stage", failing)
    sink = semel.spark.exactly_once(topic=name, retries=1)
    with pytest.raises(StreamingQueryException, match="a task always dies"):
        queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(sink), tmp_path)
    topics.fill(spark.bootstrap_servers, name, [b"behind"])
    assert values(spark, name) == [b"behind"]


def test_two_sinks_in_one_batch_need_names(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    one, two = (semel.spark.exactly_once(topic=name, name=each) for each in ("one", "two"))
    same = semel.spark.exactly_once(topic=name, name="two")

    def named(frame: DataFrame, batch_id: int) -> None:
        one(frame, batch_id)
        two(frame, batch_id)

    queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(named), tmp_path / "a")
    assert values(spark, name) == sorted(VALUES * 2)

    def unnamed(frame: DataFrame, batch_id: int) -> None:
        # Spark tells the run by this name, unless there is another.
        spark.sparkContext.setJobGroup("nightly", "orders")
        two(frame, batch_id)
        same(frame, batch_id)

    with pytest.raises(StreamingQueryException, match="two sinks of one micro-batch share it"):
        queries.finish(
            queries.stream(spark, orders).writeStream.foreachBatch(unnamed), tmp_path / "b"
        )
    assert values(spark, name) == sorted(VALUES * 3)


def test_a_batch_after_one_that_was_wrong_is_written(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    sink = semel.spark.exactly_once(
        lambda frame, batch_id: frame.select("key") if batch_id == 1 else frame, topic=name
    )

    def forgiving(frame: DataFrame, batch_id: int) -> None:
        with suppress(ConfigError):
            sink(frame, batch_id)

    stream = queries.stream(spark, orders, **BATCHES)
    queries.finish(stream.writeStream.foreachBatch(forgiving), tmp_path)
    assert values(spark, name) == VALUES[:200] + VALUES[400:]


def test_a_batch_in_which_nothing_is_left_needs_no_transaction(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    sink = semel.spark.exactly_once(
        lambda frame, batch_id: frame.where(f"{batch_id} != 1"),
        topic=name,
        options={"delivery": "at-least-once", "publishOffsets": "false"},
    )
    stream = queries.stream(spark, orders, **BATCHES)
    queries.finish(stream.writeStream.foreachBatch(sink), tmp_path)
    assert values(spark, name) == VALUES[:200] + VALUES[400:]


def test_a_query_that_is_stopped_within_a_batch_does_not_run_it_again(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    batches: list[int] = []

    def hang(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        threading.Event().wait()
        yield from rows

    def slow(frame: DataFrame, batch_id: int) -> DataFrame:
        batches.append(batch_id)
        return frame.mapInArrow(hang, "key binary, value binary")

    sink = semel.spark.exactly_once(slow, topic=name)
    writer = queries.stream(spark, orders).writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def start() -> StreamingQuery:
        query = writer.start()
        asyncio.run(looking.until(lambda: begun.exists() or query.exception() is not None))
        if (failure := query.exception()) is not None:
            raise failure
        return query

    query = queries.once_python_is_there(start)
    query.stop()
    assert batches == [0]
    assert query.exception() is None
    whole = semel.spark.exactly_once(topic=name)
    stream = queries.stream(spark, orders)
    queries.finish(stream.writeStream.foreachBatch(whole), tmp_path / "checkpoint")
    assert values(spark, name) == VALUES


def test_rows_that_cannot_be_written_fail_at_once_and_by_name(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    attempts: list[int] = []

    def wrong(frame: DataFrame, batch_id: int) -> DataFrame:
        attempts.append(batch_id)
        return frame.selectExpr("value", "99 AS partition")

    sink = semel.spark.exactly_once(wrong, topic=name)
    with pytest.raises(StreamingQueryException, match="column partition is 99 in a row"):
        queries.finish(queries.stream(spark, orders).writeStream.foreachBatch(sink), tmp_path)
    assert attempts == [0]


def test_it_is_for_streaming_queries_only(spark: Session, name: str) -> None:
    frame = spark.range(3).selectExpr("string(id) AS value")
    with pytest.raises(ConfigError, match=r"foreachBatch only.*inheritable_thread_target"):
        semel.spark.exactly_once(topic=name)(frame, 0)


def test_options_are_checked_when_it_is_made(spark: Session) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'kafka\.compression\.type'"):
        semel.spark.exactly_once(topic="t", options={"kafka.compression.typ": "lz4"})


def test_the_marker_is_where_the_default_sink_has_it(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    sink = semel.spark.exactly_once(topic=name, transactional_id=name)
    stream = queries.stream(spark, orders, **BATCHES)
    queries.finish(stream.writeStream.foreachBatch(sink), tmp_path)
    queries.forget_commits(tmp_path, 2)
    # The same query goes on with the other sink, and the batch is known there.
    writer = stream.writeStream.format("semel").option("topic", name)
    queries.finish(writer.option("transactionalId", name), tmp_path)
    assert values(spark, name) == VALUES
