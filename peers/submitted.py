"""A job for `spark-submit`: `submitted.py BROKER FOLDER`. It knows nothing of tests."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import semel.spark


def main(broker: str, folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Which Python this is, in which executor's folder."""
        context = TaskContext.get()
        assert context is not None
        name = f"{socket.gethostname()}-{context.taskAttemptId()}"
        (folder / "seen" / name).write_text(f"{Path.cwd()} {sys.prefix}")
        yield from batches

    def orders() -> DataFrame:
        reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", broker)
        reader = reader.option("subscribe", "orders").option("startingOffsets", "earliest")
        return reader.load().select("value").mapInArrow(seen, "value binary")

    default = orders().writeStream.format("semel").option("kafka.bootstrap.servers", broker)
    volume = semel.spark.exactly_once(topic="volume", bootstrap_servers=broker)
    for name, writer in {
        "default": default.option("topic", "default"),
        "volume": orders().writeStream.foreachBatch(volume),
    }.items():
        chosen = writer.option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
        chosen.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
