"""Our pipelines beside Spark's own Kafka connector, on the same broker and in the same session."""

import statistics
from collections.abc import Iterator
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench import maven
from bench.figures import Figure, Plan
from bench.pipelines import (
    ROWS_PER_SECOND,
    WARM_UP_BATCHES,
    Sink,
    default_sink,
    durations_s,
    fill,
    ready,
    topic_source,
    volume_sink,
)
from semel.spark import Session

CONNECTOR = "spark-sql-kafka-0-10_2.13"
OURS = {"default": default_sink, "exactly_once": volume_sink}
TURNS = 2


def spark_connector(plan: Plan) -> Iterator[Figure]:
    """Rows per second, topic to topic: ours exactly once over the connector's at least once."""
    connector = maven.newest("org.apache.spark", CONNECTOR, pyspark.__version__)
    jars = ",".join(map(str, _jars(connector)))
    rows = int(plan.seconds * ROWS_PER_SECOND)
    batches = plan.repeats
    rates: dict[str, float] = {}
    with ready({"spark.jars": jars}) as spark:
        fill(spark, "in", rows * (batches + WARM_UP_BATCHES))
        # Each in turn and all of it again, as Java is slow at first; the best of each counts.
        for turn in range(TURNS):
            # The connector does not compress unless told to; the faster way counts.
            for codec in ("none", "lz4"):
                frame, sink = _theirs(spark, rows, codec)
                _note(
                    rates, f"connector_{codec}", rows, durations_s(frame, sink, f"{codec}-{turn}")
                )
            for name, sink in OURS.items():
                frame = topic_source(spark, rows, batches)
                _note(rates, name, rows, durations_s(frame, sink, f"{name}-{turn}"))
    detail = {f"{name}_rows_per_s": rate for name, rate in rates.items()}
    theirs = max(rates["connector_none"], rates["connector_lz4"])
    for name in OURS:
        yield Figure(
            f"{name}, exactly once: rows/s / Spark's connector {connector.version}, at least once",
            rates[name] / theirs,
            ">= 1",
            detail,
        )


def _jars(connector: maven.Artifact) -> Iterator[Path]:
    """The connector, and what it needs beside what Spark comes with."""
    present = [file.name for file in (Path(pyspark.__file__).parent / "jars").iterdir()]
    yield maven.jar(connector)
    for each in maven.needed_by(connector):
        if not any(name.startswith(f"{each.name}-") for name in present):
            yield maven.jar(each)


def _theirs(spark: Session, rows: int, codec: str) -> tuple[DataFrame, Sink]:
    servers = spark.bootstrap_servers
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", "in").option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", rows).load().select("key", "value")

    def sink(frame: DataFrame, topic: str) -> DataStreamWriter:
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
        return writer.option("kafka.compression.type", codec).option("topic", topic)

    return frame, sink


def _note(rates: dict[str, float], name: str, rows: int, durations: list[float]) -> None:
    rates[name] = max(rows / statistics.median(durations), rates.get(name, 0.0))
