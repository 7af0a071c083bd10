"""Streaming queries of tests, and what can befall their checkpoints."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

Result = TypeVar("Result")

_PATIENCE_S = 10
_SLOWEST_TO_START = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"


def stream(spark: SparkSession, topic: str, **options: str) -> DataFrame:
    """Keys and values of a topic from its beginning."""
    reader = spark.readStream.format("semel").option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").options(**options)
    return reader.load().select("key", "value")


def once_python_is_there(begin: Callable[[], Result]) -> Result:
    """Begin again where Spark was not patient enough.

    A source, and on Spark Connect a function for each batch, has a process of its own. The query is
    given up where that takes longer than ten seconds to start: no setting says otherwise, and a
    machine may be that busy.
    """
    while True:
        try:
            return begin()
        except PySparkException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
        while _seconds_of_a_start() > _PATIENCE_S:
            """Those that were given up still start, and would be in the way of the next."""


def _seconds_of_a_start() -> float:
    begun_s = time.monotonic()
    subprocess.run([sys.executable, "-c", f"import {_SLOWEST_TO_START}"], check=True)
    return time.monotonic() - begun_s


def finish(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Run the query up to what is there now."""
    chosen = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)

    def run() -> StreamingQuery:
        query = chosen.start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return query

    return once_python_is_there(run)


def batch_count(query: StreamingQuery) -> int:
    return len(query.recentProgress)


def forget_commits(checkpoint: Path, first: int) -> None:
    """As if the driver had died after the sink's commit of these batches and before Spark's."""
    _remove_from(checkpoint / "commits", first)


def roll_back(checkpoint: Path, first: int) -> None:
    """As if a backup from before these batches had been put in place."""
    _remove_from(checkpoint / "commits", first)
    _remove_from(checkpoint / "offsets", first)


def forget_topic_ids(checkpoint: Path) -> int:
    """As a version wrote it that did not know of them, or Spark's own source; in how many files."""
    count = 0
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        *notes, offsets = file.read_text().splitlines()
        named = json.loads(offsets)
        plain = {topic: partitions for topic, partitions in named.items() if partitions}
        count += plain != named
        file.write_text("\n".join([*notes, json.dumps(plain)]))
        # Spark would find that the file is not the one it wrote.
        (file.parent / f".{file.name}.crc").unlink()
    return count


def _remove_from(folder: Path, first: int) -> None:
    for file in folder.iterdir():
        number = file.name.removeprefix(".").removesuffix(".crc")
        if number.isdecimal() and int(number) >= first:
            file.unlink()


def delete(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
