"""Pipelines on a local Spark: each micro-batch once, whatever is run again."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pyarrow as pa
import pytest
from pyspark import inheritable_thread_target
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame

import semel
import semel.spark
from semel.client.cluster.blocking import ClientOptions, shared
from semel.client.cluster.group_offsets import group_offsets
from semel.errors import ConfigError
from semel.spark import Session, last_progress, report_progress
from semel.spark.progress import Progress
from semel.testing import Broker
from semel.types import TopicPartition
from spark import queries
from support import topics

# The first test waits for a JVM and for the first process of each kind.
pytestmark = pytest.mark.timeout(300)

VALUES = [b"%04d" % number for number in range(600)]
BATCHES = {"maxOffsetsPerTrigger": "200"}


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


def test_a_batch_query_reads_what_a_batch_job_wrote(spark: Session, name: str) -> None:
    frame = spark.range(1000).selectExpr("string(id) AS key", "concat('v', id) AS value")
    frame.write.format("semel").mode("append").option("topic", name).save()
    read = spark.read.format("semel").option("subscribe", name).load()
    pairs = read.selectExpr("string(key) AS key", "string(value) AS value").collect()
    assert sorted((row.key, row.value) for row in pairs) == sorted(
        (str(number), f"v{number}") for number in range(1000)
    )


def test_where_nothing_is_there_a_batch_query_reads_nothing(spark: Session, name: str) -> None:
    topics.create(spark.bootstrap_servers, name, 2)
    reader = spark.read.format("semel")
    assert reader.option("subscribe", name).load().collect() == []
    assert spark.read.format("semel").option("subscribePattern", "zzz.*").load().count() == 0


def test_every_column_comes_through_spark_as_the_client_reads_it(spark: Session, name: str) -> None:
    frame = spark.range(10).selectExpr(
        "IF(id % 2 = 0, NULL, string(id)) AS key",
        "IF(id % 3 = 0, NULL, binary(string(id))) AS value",
        "IF(id % 5 = 0, NULL, array(named_struct('key', 'h', 'value', binary(string(id))))) "
        "AS headers",
        "0 AS partition",
    )
    frame.write.format("semel").mode("append").option("topic", name).save()
    read = spark.read.format("semel").option("subscribe", name).option("includeHeaders", "true")
    found = read.load().orderBy("offset").toArrow()
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    expected = semel.read(
        name, bootstrap_servers=spark.bootstrap_servers, columns=[*columns, "headers"]
    )
    assert found.to_pylist() == expected.to_pylist()
    assert found.column("value").to_pylist()[:4] == [None, b"1", b"2", None]


def test_a_schema_names_the_columns_that_are_read(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    named = "value binary, offset long, headers array<struct<key: string, value: binary>>"
    read = spark.read.format("semel").schema(named).option("subscribe", orders).load()
    assert read.columns == ["value", "offset", "headers"]
    rows = [(bytes(row.value), row.headers) for row in read.collect()]
    assert sorted(rows) == [(value, None) for value in VALUES]
    reader = spark.readStream.format("semel").schema("value binary").option("subscribe", orders)
    stream = reader.option("startingOffsets", "earliest").load()
    queries.finish(stream.writeStream.format("semel").option("topic", name), tmp_path)
    assert values(spark, name) == VALUES


def test_a_stream_is_copied_batch_by_batch(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    sink = queries.stream(spark, orders, **BATCHES).writeStream.format("semel")
    query = queries.finish(sink.option("topic", name), tmp_path)
    assert queries.batch_count(query) == 3
    assert values(spark, name) == VALUES


def test_a_query_tells_what_it_reads_and_writes_and_leaves_one_group(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    told: Queue[Progress] = Queue()
    listener = report_progress(spark, told.put)
    try:
        sink = queries.stream(spark, orders, **BATCHES).writeStream.format("semel")
        query = queries.finish(sink.queryName("loud").option("topic", name), tmp_path)
        first, second, third = (told.get(timeout=60) for _ in range(3))
    finally:
        spark.streams.removeListener(listener)
    assert [each.batch_id for each in (first, second, third)] == [0, 1, 2]
    last = last_progress(query, bootstrap_servers=spark.bootstrap_servers)
    assert last is not None
    # Spark hands on its numbers rounded.
    assert last.rows_per_s == pytest.approx(third.rows_per_s, abs=0.1)
    assert last._replace(rows_per_s=third.rows_per_s) == third
    for number, progress in enumerate((first, second, third), start=1):
        (source,) = progress.sources
        assert (progress.name, source.description) == ("loud", f"semel[{orders}]")
        assert source.rows == 200
        assert source.max_offsets_behind_latest == 300 - 100 * number
        assert (source.behind_s > 0) is (number < 3)
    (written,) = third.sinks
    assert (written.batch_id, written.written.rows, written.written.skipped) == (2, 200, 0)
    group = f"semel-loud-{query.id[:8]}"
    assert written.group == group
    connected = shared(ClientOptions(spark.bootstrap_servers))
    found = connected.run(group_offsets(connected.cluster, group))
    read = {TopicPartition(orders, number): 300 for number in (0, 1)}
    marker = {TopicPartition("semel-markers", 0): 3}
    assert {place: at.offset for place, at in found.items()} == read | marker


def test_a_batch_that_spark_runs_again_is_not_written_again(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    for _ in range(2):
        sink = queries.stream(spark, orders, **BATCHES).writeStream.format("semel")
        query = queries.finish(sink.option("topic", name), tmp_path)
        queries.forget_commits(tmp_path, 2)
    assert [progress["batchId"] for progress in query.recentProgress] == [2]
    assert values(spark, name) == VALUES


def test_a_query_restarted_with_another_parallelism_goes_on(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    servers = spark.bootstrap_servers
    first = queries.stream(spark, orders, **BATCHES).repartition(4).writeStream.format("semel")
    queries.finish(first.option("topic", name), tmp_path)
    queries.forget_commits(tmp_path, 2)
    topics.grow(servers, name, 5)
    topics.fill(servers, orders, [b"more"])
    second = queries.stream(spark, orders, minPartitions="5").writeStream.format("semel")
    queries.finish(second.option("topic", name), tmp_path)
    assert values(spark, name) == [*VALUES, b"more"]


@pytest.mark.parametrize("is_volume", [False, True])
def test_a_checkpoint_that_names_no_topic_ids_is_continued(
    spark: Session, orders: str, name: str, tmp_path: Path, is_volume: bool
) -> None:
    def run() -> None:
        writer = queries.stream(spark, orders, **BATCHES).writeStream
        if is_volume:
            writer = writer.foreachBatch(semel.spark.exactly_once(topic=name))
        else:
            writer = writer.format("semel").option("topic", name)
        queries.finish(writer, tmp_path)

    run()
    assert queries.forget_topic_ids(tmp_path) == 3
    queries.forget_commits(tmp_path, 2)
    topics.fill(spark.bootstrap_servers, orders, [b"more"])
    run()
    assert values(spark, name) == [*VALUES, b"more"]


def test_a_topic_made_again_while_the_query_rests_is_told_and_read_if_asked_for(
    spark: Session, name: str, tmp_path: Path
) -> None:
    servers, orders = spark.bootstrap_servers, f"{name}-in"

    def run(count: int, **options: str) -> None:
        topics.create(servers, orders)
        topics.fill(servers, orders, VALUES[:count])
        sink = queries.stream(spark, orders, **options).writeStream.format("semel")
        queries.finish(sink.option("topic", name), tmp_path)

    run(10)
    topics.delete(servers, orders)
    with pytest.raises(StreamingQueryException, match="deleted and created again"):
        run(12)
    topics.delete(servers, orders)
    run(12, failOnDataLoss="false")
    assert values(spark, name) == sorted(VALUES[:10] + VALUES[:12])


def test_a_deleted_checkpoint_means_everything_again_and_never_a_gap(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    for checkpoint in (tmp_path / "one", tmp_path / "two"):
        sink = queries.stream(spark, orders).writeStream.format("semel").option("topic", name)
        queries.finish(sink.option("transactionalId", name), checkpoint)
        queries.delete(checkpoint)
    assert values(spark, name) == sorted(VALUES * 2)


def test_a_rolled_back_checkpoint_is_refused_unless_overridden(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def sink(**options: str) -> None:
        writer = queries.stream(spark, orders, **BATCHES).writeStream.format("semel")
        queries.finish(writer.option("topic", name).options(**options), tmp_path)

    sink()
    queries.roll_back(tmp_path, 1)
    with pytest.raises(StreamingQueryException, match="its checkpoint was rolled back"):
        sink()
    assert values(spark, name) == VALUES
    sink(overrideMarker="true")
    assert len(values(spark, name)) == len(VALUES) + 400


def test_a_checkpoint_rolled_back_by_one_batch_that_has_grown_since_is_refused(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def sink(**options: str) -> None:
        writer = queries.stream(spark, orders).writeStream.format("semel")
        queries.finish(writer.option("topic", name).options(**options), tmp_path)

    sink()
    queries.roll_back(tmp_path, 0)
    topics.fill(spark.bootstrap_servers, orders, [b"more"], 0)
    with pytest.raises(StreamingQueryException, match="its checkpoint was rolled back"):
        sink()
    sink(overrideMarker="true")
    assert values(spark, name) == sorted([*VALUES, *VALUES, b"more"])


def test_two_queries_on_one_id_are_told(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def run(checkpoint: str) -> None:
        sink = queries.stream(spark, orders, **BATCHES).writeStream.format("semel")
        shared = sink.option("topic", name).option("transactionalId", name)
        queries.finish(shared, tmp_path / checkpoint)

    run("one")
    run("two")
    topics.fill(spark.bootstrap_servers, orders, [b"more"])
    with pytest.raises(StreamingQueryException, match="two queries share this transactional id"):
        run("one")


def test_a_task_that_is_retried_writes_its_rows_once(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not failed.exists():
                failed.touch()
                raise RuntimeError("the first task fails")
            yield batch

    # A local session gives a task one attempt: the query fails, and its next run does the batch.
    frame = queries.stream(spark, orders).mapInArrow(fail_once, "key binary, value binary")
    with pytest.raises(StreamingQueryException, match="the first task fails"):
        queries.finish(
            frame.writeStream.format("semel").option("topic", name), tmp_path / "checkpoint"
        )
    assert values(spark, name) == []
    queries.finish(frame.writeStream.format("semel").option("topic", name), tmp_path / "checkpoint")
    assert values(spark, name) == VALUES


def test_batches_in_which_nothing_is_left_are_committed_too(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    frame = queries.stream(spark, orders, **BATCHES).where("string(value) >= '0500'")
    for _ in range(2):
        sink = frame.writeStream.format("semel").option("topic", name)
        queries.finish(sink, tmp_path)
        queries.forget_commits(tmp_path, 2)
    assert values(spark, name) == VALUES[500:]


def test_a_job_written_for_kafka_runs_by_changing_the_name_of_the_format(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    source = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", spark.bootstrap_servers)
        .option("subscribe", orders)
        .option("startingOffsets", f'{{"{orders}": {{"0": -2, "1": 100}}}}')
        .option("failOnDataLoss", "false")
        .option("kafka.max.poll.records", "500")
        .load()
    )
    sink = (
        source.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
        .writeStream.format("semel")
        .option("kafka.bootstrap.servers", spark.bootstrap_servers)
        .option("kafka.acks", "all")
        .option("topic", name)
    )
    queries.finish(sink, tmp_path)
    assert len(values(spark, name)) == 500


def test_a_column_names_topics_that_are_created_then(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    frame = queries.stream(spark, orders, **BATCHES).selectExpr(
        "value", f"concat('{name}-', int(string(value)) % 2) AS topic"
    )
    for _ in range(2):
        queries.finish(frame.writeStream.format("semel"), tmp_path)
        queries.forget_commits(tmp_path, 2)
    assert values(spark, f"{name}-0") == VALUES[::2]
    assert values(spark, f"{name}-1") == VALUES[1::2]


def test_a_mistake_is_told_in_a_sentence_without_a_trace(spark: Session, name: str) -> None:
    with pytest.raises(AnalysisException) as at_load:
        spark.readStream.format("semel").option("subscribes", "t").load()
    assert _head(at_load) == "there is no option 'subscribes'; did you mean 'subscribe'?"
    with pytest.raises(AnalysisException) as at_planning:
        spark.read.format("semel").option("subscribe", name).load().count()
    assert _head(at_planning).startswith(f"topic {name} does not exist: create it")
    with pytest.raises(AnalysisException) as at_writing:
        spark.range(1).write.format("semel").mode("append").option("topic", name).save()
    assert _head(at_writing).startswith("column value is missing: there are id; call the one")
    rows = spark.range(1).selectExpr("string(id) AS value", "99 AS partition")
    with pytest.raises(PythonException) as in_a_task:
        rows.write.format("semel").mode("append").option("topic", name).save()
    told = str(in_a_task.value)
    assert "Traceback" not in told
    assert "column partition is 99 in a row" in told.splitlines()[1]


def test_a_mistake_in_a_stream_is_told_in_a_sentence_before_any_trace(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    ending = queries.stream(spark, orders, endingOffsets="latest").writeStream.format("semel")
    with pytest.raises(StreamingQueryException) as at_start:
        queries.finish(ending.option("topic", name), tmp_path / "end")
    assert _head(at_start) == "option endingOffsets is for batch queries: a stream has no end"
    writer = queries.stream(spark, orders).selectExpr("value", "99 AS partition").writeStream
    with pytest.raises(StreamingQueryException) as in_a_task:
        queries.finish(writer.foreachBatch(semel.spark.exactly_once(topic=name)), tmp_path / "row")
    assert _head(in_a_task).startswith("column partition is 99 in a row: topic")
    assert semel.read(name, bootstrap_servers=spark.bootstrap_servers).num_rows == 0


def _head(raised: pytest.ExceptionInfo[BaseException]) -> str:
    """What the first line of the message says after its type."""
    return str(raised.value).splitlines()[0].partition("semel.errors.")[2].partition(": ")[2]


def test_a_broker_that_is_down_is_told_by_its_address(
    spark: Session, orders: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    sink = queries.stream(spark, orders).writeStream.format("semel").option("topic", "t")
    sink = sink.option("kafka.bootstrap.servers", address)
    with pytest.raises(StreamingQueryException, match=address) as told:
        queries.finish(sink.option("kafka.request.timeout.ms", "500"), tmp_path)
    assert "Pickling" not in str(told.value)


def test_update_mode_is_refused_by_the_name_of_the_sink_that_takes_it(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    counts = queries.stream(spark, orders).groupBy("value").count().select("value")
    updates = counts.writeStream.option("topic", name).outputMode("update")
    with pytest.raises(ConfigError, match=r"foreachBatch\(semel\.spark\.exactly_once\("):
        queries.finish(updates.format("semel"), tmp_path)
    with pytest.raises(ConfigError, match="exactly_once"):
        counts.writeStream.start(format="semel", outputMode="update", topic=name)
    sink = semel.spark.exactly_once(topic=name)
    queries.finish(counts.writeStream.outputMode("update").foreachBatch(sink), tmp_path)
    assert values(spark, name) == VALUES


def test_consumed_offsets_are_shown_by_a_group(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    import confluent_kafka

    frame = queries.stream(spark, orders)
    sink = frame.writeStream.format("semel").option("topic", name).option("offsetsGroup", name)
    queries.finish(sink, tmp_path)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": spark.bootstrap_servers, "group.id": name, "log_level": 0}
    )
    places = [confluent_kafka.TopicPartition(orders, number) for number in range(2)]
    found = [place.offset for place in consumer.committed(places, 30)]
    consumer.close()
    assert found == [300, 300]


def save(frame: DataFrame, topic: str, **options: str) -> None:
    frame.write.format("semel").mode("append").option("topic", topic).options(**options).save()


def test_what_a_function_for_each_batch_writes_is_written_once(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def both(frame: DataFrame, batch_id: int) -> None:
        save(frame.repartition(3), name)
        save(frame.where("int(string(value)) % 2 = 0"), f"{name}-even")
        # Not of the stream, but a part of its batch.
        save(spark.range(1).selectExpr(f"'batch {batch_id}' AS value"), f"{name}-log")

    for _ in range(2):
        stream = queries.stream(spark, orders, **BATCHES)
        query = queries.finish(stream.writeStream.foreachBatch(both), tmp_path)
        queries.forget_commits(tmp_path, 2)
    assert [progress["batchId"] for progress in query.recentProgress] == [2]
    assert values(spark, name) == VALUES
    assert values(spark, f"{name}-even") == VALUES[::2]
    assert values(spark, f"{name}-log") == [b"batch 0", b"batch 1", b"batch 2"]


@pytest.mark.parametrize("has_jobs_of_its_own", [False, True])
def test_a_function_that_writes_twice_to_a_topic_is_told_to_name_the_second(
    spark: Session, orders: str, name: str, tmp_path: Path, has_jobs_of_its_own: bool
) -> None:
    def twice(frame: DataFrame, second: dict[str, str]) -> None:
        if has_jobs_of_its_own:
            spark.sparkContext.setJobGroup("nightly", "orders")
        save(frame, name)
        save(frame, name, **second)

    stream = queries.stream(spark, orders)
    unnamed = stream.writeStream.foreachBatch(lambda frame, _: twice(frame, {}))
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="give the second a name of its own"):
            queries.finish(unnamed, tmp_path)
        assert values(spark, name) == VALUES
    named = stream.writeStream.foreachBatch(lambda frame, _: twice(frame, {"name": "second"}))
    queries.finish(named, tmp_path)
    assert values(spark, name) == sorted(VALUES * 2)


def test_a_thread_of_the_function_writes_once_or_not_at_all(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def save_there(frame: DataFrame, topic: str) -> None:
        # Spark finds sources of Python only where a session is active.
        frame.sparkSession.createDataFrame([], "a int")
        save(frame, topic)

    refused: list[str] = []

    def in_threads(frame: DataFrame, batch_id: int) -> None:
        inheriting = inheritable_thread_target(frame.sparkSession)(save_there)
        with ThreadPoolExecutor() as threads:
            threads.submit(inheriting, frame, name).result()
        with ThreadPoolExecutor() as threads:
            alone = threads.submit(save_there, frame, f"{name}-alone")
            refused.append(str(alone.exception()))

    for _ in range(2):
        stream = queries.stream(spark, orders)
        queries.finish(stream.writeStream.foreachBatch(in_threads), tmp_path)
        queries.forget_commits(tmp_path, 0)
    assert values(spark, name) == VALUES
    assert len(refused) == 2
    assert all("inheritable_thread_target" in each for each in refused)
    assert values(spark, f"{name}-alone") == []


def test_two_sinks_of_one_batch_need_names(
    spark: Session, orders: str, name: str, tmp_path: Path
) -> None:
    def both(frame: DataFrame, batch_id: int, *, are_named: bool) -> None:
        for number in (1, 2):
            id_ = f"{name}-{number}" if are_named else name
            writer = frame.write.format("semel").mode("append").option("topic", name)
            writer.option("transactionalId", id_).option("batchId", str(batch_id)).save()

    frame = queries.stream(spark, orders)
    with pytest.raises(StreamingQueryException, match="two sinks of one micro-batch share it"):
        queries.finish(
            frame.writeStream.foreachBatch(lambda df, number: both(df, number, are_named=False)),
            tmp_path / "unnamed",
        )
    assert values(spark, name) == VALUES
    queries.finish(
        frame.writeStream.foreachBatch(lambda df, number: both(df, number, are_named=True)),
        tmp_path / "named",
    )
    assert values(spark, name) == sorted(VALUES * 3)


def test_arrow_types_reach_spark_as_they_are(spark: Session, orders: str) -> None:
    read = spark.read.format("semel").option("subscribe", orders).load().toArrow()
    assert read.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    assert read.num_rows == len(VALUES)
