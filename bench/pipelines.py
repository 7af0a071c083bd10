"""Exactly-once pipelines on PySpark, over what Spark takes for the same rows with neither end."""

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

import semel
import semel.spark
from bench.figures import Figure, Plan, durable_broker
from bench.in_memory import KEY_SIZE, SCHEMA, VALUE_SIZE, InMemory, columns
from semel.client.admin import topics
from semel.client.cluster.blocking import ClientOptions, Connected
from semel.records.compression import Compression, compress
from semel.spark import Session

TASKS = 2
PARTITIONS = 4
ROWS_PER_SECOND = 300_000
SMALL_BATCH = 100
WARM_UP_BATCHES = 2

Sink = Callable[[DataFrame, str], DataStreamWriter]


def pipeline_rate(plan: Plan) -> Iterator[Figure]:
    """Rows per second of topic to topic over those of memory to nowhere."""
    rows = int(plan.seconds * ROWS_PER_SECOND)
    batches = plan.repeats + 1
    taken_s: dict[str, list[float]] = {name: [] for name in _PIPELINES}
    with ready() as spark:
        fill(spark, "in", rows * (batches + WARM_UP_BATCHES))
        # In turn, as a machine is not equally fast all the time; the first turn warms Java up.
        for turn in range(plan.repeats + 2):
            for name, (source, sink) in _PIPELINES.items():
                durations = durations_s(source(spark, rows, batches), sink, f"out-{name}-{turn}")
                taken_s[name] += [statistics.median(durations)] if turn else []
    detail = {
        f"{name}_rows_per_s": rows / statistics.median(taken) for name, taken in taken_s.items()
    }
    detail |= {"row_bytes": KEY_SIZE + VALUE_SIZE, "lz4_ratio": _lz4_ratio()}
    for name, limit in (("default", ">= 0.35"), ("exactly_once", ">= 0.45")):
        # Each turn is compared with its own floor.
        pairs = zip(taken_s["floor"], taken_s[name], strict=True)
        yield Figure(
            f"pipeline, exactly once, {name}: rows/s / memory to nowhere",
            statistics.median(floor_s / pipeline_s for floor_s, pipeline_s in pairs),
            limit,
            detail,
        )


def micro_batch_cost(plan: Plan) -> Iterator[Figure]:
    """What the sink adds to a micro-batch of few rows, over a sink that drops them."""
    batches = int(plan.seconds * 15)
    with ready() as spark:
        fill(spark, "in", SMALL_BATCH * (batches + WARM_UP_BATCHES + 1))
        durations: dict[str, list[float]] = {"sink": [], "nothing": []}
        # One turn more than asked for, since Java is slow at first.
        for turn in range(plan.repeats + 1):
            for name, sink in (("sink", default_sink), ("nothing", _dropping_sink)):
                source = topic_source(spark, SMALL_BATCH, batches)
                taken_s = durations_s(source, sink, f"out-{name}-{turn}")
                durations[name] += taken_s if turn else []
    sink_ms, nothing_ms = (statistics.median(each) * 1000 for each in durations.values())
    yield Figure(
        "micro-batch, committed: ms over a sink that drops it",
        sink_ms - nothing_ms,
        "<= 20",
        {"sink_ms": sink_ms, "nothing_ms": nothing_ms, "batches": len(durations["sink"])},
    )


@contextmanager
def ready(config: Mapping[str, str] | None = None) -> Iterator[Session]:
    # Workers have to find the source of this package.
    root = str(Path(__file__).parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    with (
        durable_broker(num_partitions=PARTITIONS) as broker,
        semel.spark.session(f"local[{TASKS}]", broker=broker, config=config) as spark,
    ):
        assert isinstance(spark, Session)
        spark.dataSource.register(InMemory)
        yield spark


def fill(spark: Session, topic: str, count: int) -> None:
    with Connected(ClientOptions(spark.bootstrap_servers)) as connected:
        created = topics.create(connected.cluster, [topic], partition_count=PARTITIONS)
        assert connected.run(created) == {topic: None}
    rows = columns(32_768)
    table = pa.Table.from_batches([rows] * (count // rows.num_rows + 1)).slice(0, count)
    semel.write(topic, table, bootstrap_servers=spark.bootstrap_servers)


def _memory(spark: Session, rows: int, batches: int) -> DataFrame:
    reader = spark.readStream.format("in_memory")
    return reader.options(rows=rows, batches=batches + WARM_UP_BATCHES, tasks=TASKS).load()


def topic_source(spark: Session, rows: int, batches: int) -> DataFrame:
    """The columns that the floor has, and no more of them."""
    reader = spark.readStream.format("semel").schema(SCHEMA).option("subscribe", "in")
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows)
    return reader.load()


def _dropping_sink(frame: DataFrame, topic: str) -> DataStreamWriter:
    return frame.writeStream.format("in_memory")


def default_sink(frame: DataFrame, topic: str) -> DataStreamWriter:
    return frame.writeStream.format("semel").option("topic", topic)


def volume_sink(frame: DataFrame, topic: str) -> DataStreamWriter:
    return frame.writeStream.foreachBatch(semel.spark.exactly_once(topic=topic))


_PIPELINES: dict[str, tuple[Callable[[Session, int, int], DataFrame], Sink]] = {
    "floor": (_memory, _dropping_sink),
    "default": (topic_source, default_sink),
    "exactly_once": (topic_source, volume_sink),
}


def durations_s(frame: DataFrame, sink: Sink, topic: str) -> list[float]:
    """How long each micro-batch took, without the first ones and the last, which is short."""
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        query = (
            sink(frame, topic).option("checkpointLocation", folder).trigger(availableNow=True)
        ).start()
        query.awaitTermination()
        progress = query.recentProgress
    durations_ms = [each["durationMs"]["triggerExecution"] for each in progress]
    return [each / 1000 for each in durations_ms[WARM_UP_BATCHES:-1]]


def _lz4_ratio() -> float:
    plain = b"".join(columns(32_768).column("value").to_pylist()[:8192])
    return len(plain) / len(compress(Compression.LZ4, plain))
