"""A pipeline on whichever PySpark runs this: `python older_spark.py FOLDER`.

Says what it has found, a line for each thing, so that one may compare versions.
"""

import contextlib
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import semel
import semel.spark
from semel.spark import Session
from spark import queries

SENT = 300
LATER = 40


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def fill(servers: str, numbers: range) -> None:
    rows = {
        "key": [f"{number % 7}" for number in numbers],
        "value": [f"{number:04}" for number in numbers],
        "timestamp": [1_700_000_000_000 + number for number in numbers],
        "headers": [[{"key": "n", "value": f"{number}".encode()}] for number in numbers],
    }
    semel.write("orders", pa.table(rows), bootstrap_servers=servers)


def copied(servers: str, topic: str) -> str:
    """Whether the topic has all columns of each row once."""
    columns = ["key", "value", "timestamp", "headers"]
    rows = [
        sorted(map(repr, semel.read(each, columns=columns, bootstrap_servers=servers).to_pylist()))
        for each in ("orders", topic)
    ]
    return "each row once" if rows[0] == rows[1] else f"{len(rows[1])} rows for {len(rows[0])}"


def stream(spark: Session, **options: str) -> DataFrame:
    reader = spark.readStream.format("semel").option("subscribe", "orders")
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
    frame = reader.options(**options).load()
    return frame.select("key", "value", "timestamp", "headers")


def runs_over_a_topic_made_twice_again(servers: str, spark: Session, folder: Path) -> list[int]:
    """The rows of each, when the batch that has to be run again was of one that is gone by now."""

    def make(count: int) -> None:
        rows = [f"{number}" for number in range(count)]
        semel.write("fleeting", pa.table({"value": rows}), bootstrap_servers=servers)

    def run(**options: str) -> int:
        reader = spark.readStream.format("semel").option("subscribe", "fleeting")
        frame = reader.option("startingOffsets", "earliest").options(**options).load()
        sink = frame.select("value").writeStream.format("semel").option("topic", "kept")
        query = queries.finish(sink, folder)
        return sum(batch["numInputRows"] for batch in query.recentProgress)

    with semel.Admin(servers) as admin:
        make(10)
        rows = [run()]
        admin.delete_topics("fleeting")
        make(12)
        with contextlib.suppress(PySparkException):
            # Refused, since what was unread of the first one is gone.
            rows.append(run())
        admin.delete_topics("fleeting")
        make(7)
        return [*rows, run(failOnDataLoss="false"), run(failOnDataLoss="false")]


def last_of(query: StreamingQuery, servers: str) -> tuple[object, ...]:
    """What it has read, and the rows of its last batch."""
    last = semel.spark.last_progress(query, bootstrap_servers=servers)
    assert last is not None
    (source,), (sink,) = last.sources, last.sinks
    return source.description, sink.written.rows


def main(folder: Path) -> None:
    with semel.spark.session() as spark:
        say("pyspark", ".".join(pyspark.__version__.split(".")[:2]))
        servers = spark.bootstrap_servers
        fill(servers, range(SENT))

        def by_default() -> DataStreamWriter:
            return stream(spark).writeStream.format("semel").option("topic", "default")

        def at_volume() -> DataStreamWriter:
            volume = semel.spark.exactly_once(topic="volume")
            return stream(spark).writeStream.foreachBatch(volume)

        sinks = {"default": by_default, "volume": at_volume}
        for name, sink in sinks.items():
            queries.finish(sink(), folder / name)
        fill(servers, range(SENT, SENT + LATER))
        for name, sink in sinks.items():
            queries.finish(sink(), folder / name)
            queries.forget_commits(folder / name, 1)
            query = queries.finish(sink(), folder / name)
            say(name, copied(servers, name), *last_of(query, servers))
        reader = spark.read.format("semel").option("subscribe", "orders")
        frame = reader.option("includeHeaders", "true").load()
        batch = frame.select("key", "value", "timestamp", "headers").write.format("semel")
        batch.mode("append").option("topic", "batch").save()
        say("batch", copied(servers, "batch"))
        say("remade", *runs_over_a_topic_made_twice_again(servers, spark, folder / "remade"))
        try:
            limited = stream(spark, maxOffsetsPerTrigger="100").writeStream.format("semel")
            query = queries.finish(limited.option("topic", "limited"), folder / "limited")
            say("limits", queries.batch_count(query), "batches")
        except PySparkException as error:
            say("limits", str(error).splitlines()[0].partition("ConfigError: ")[2])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
