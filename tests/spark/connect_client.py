"""A client of a Connect server: `python connect_client.py ADDRESS BROKER FOLDER`.

It copies the topic `orders` to three others, in batches of 200 rows: to `copied` by the default
sink, and to `one` and `two` by `exactly_once`, in two queries that read one frame at the same time.
A task of the last one fails once, and that one has no name. For each checkpoint in FOLDER it says
the id of its query. When it runs first it registers the package, and has one more query that calls
`write` in a function, which cannot know its batches there, and is to be refused.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import semel.spark
from spark import queries

ROWS_PER_BATCH = "200"


def main(address: str, broker: str, folder: Path) -> None:
    spark = SparkSession.builder.remote(address).getOrCreate()
    failed = folder / "failed"
    is_first = not failed.exists()
    if is_first:
        semel.spark.register(spark)

    def orders() -> DataFrame:
        reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", broker)
        reader = reader.option("subscribe", "orders").option("startingOffsets", "earliest")
        return reader.option("maxOffsetsPerTrigger", ROWS_PER_BATCH).load().select("key", "value")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not failed.exists():
            failed.touch()
            raise RuntimeError("the first task fails")

    def numbered(frame: DataFrame, batch_id: int) -> dict[str, DataFrame]:
        rows = frame.mapInArrow(fail_once, "key binary, value binary")
        return {"two": rows.selectExpr("key", "concat('number ', value) AS value")}

    def start(name: str, writer: DataStreamWriter) -> Any:
        chosen = writer.option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
        if name != "two":
            chosen = chosen.queryName(name)
        return queries.once_python_is_there(chosen.start)

    def finish(name: str, writer: DataStreamWriter, started: Any = None) -> None:
        def run() -> Any:
            nonlocal started
            query, started = started or start(name, writer), None
            query.awaitTermination()
            return query

        sys.stdout.write(f"{name} {queries.once_python_is_there(run).id}\n")

    shared = orders()
    sinks = {
        "one": semel.spark.exactly_once(topic="one", bootstrap_servers=broker),
        "two": semel.spark.exactly_once(numbered, bootstrap_servers=broker),
    }
    writers = {name: shared.writeStream.foreachBatch(sink) for name, sink in sinks.items()}
    started = {name: start(name, writer) for name, writer in writers.items()}
    for name, query in started.items():
        finish(name, writers[name], query)
    default = orders().writeStream.format("semel").option("kafka.bootstrap.servers", broker)
    finish("copied", default.option("topic", "copied"))

    def save(frame: DataFrame, batch_id: int) -> None:
        sink = frame.write.format("semel").mode("append").option("topic", "saved")
        sink.option("kafka.bootstrap.servers", broker).save()

    if is_first:
        try:
            finish("saved", orders().writeStream.foreachBatch(save))
        except PySparkException as error:
            if "write with semel.spark.exactly_once" not in str(error):
                raise
            sys.stdout.write("saved refused\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
