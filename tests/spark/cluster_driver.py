"""The driver of a pipeline on a cluster: `python cluster_driver.py MASTER BROKER FOLDER`.

It copies the topic `orders` by the default sink to `copied` and by `exactly_once` to `volume`. In
each, one task fails at its first attempt.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

import semel.spark
from spark import queries

ROWS_PER_BATCH = "1000"


def failing_once(marker: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        with (marker.parent / "executors").open("a") as executors:
            executors.write(f"{os.environ['SPARK_EXECUTOR_DIRS']}\n")
        if context.partitionId() == 0 and not marker.exists():
            marker.touch()
            raise RuntimeError("the first attempt of this task fails")

    return work


def main(master: str, broker: str, folder: Path) -> None:
    config = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        # Begin when both workers are there.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.sql.shuffle.partitions": "2",
    }
    with semel.spark.session(master, broker=broker, config=config) as spark:

        def orders(marker: str) -> DataFrame:
            reader = spark.readStream.format("semel").option("subscribe", "orders")
            reader = reader.option("startingOffsets", "earliest")
            frame = reader.option("maxOffsetsPerTrigger", ROWS_PER_BATCH).load()
            pairs = frame.select("key", "value")
            return pairs.mapInArrow(failing_once(folder / marker), "key binary, value binary")

        default = orders("default").writeStream.format("semel").option("topic", "copied")
        volume = orders("volume").writeStream.foreachBatch(semel.spark.exactly_once(topic="volume"))
        for name, writer in (("default", default), ("volume", volume)):
            queries.finish(writer, folder / f"{name}-checkpoint")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
