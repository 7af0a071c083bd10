"""A topic and a table of a lake, each row once in both: `python lakes.py KIND FOLDER JARS`.

Each portion is written by a driver that as good as dies when the table has it and the topic has
not, by the next one, and by one that finds what is done and was not noted by Spark.
"""

import json
import sys
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from examples import paired_sinks
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import semel
import semel.spark
from spark import queries

TABLE = "lake.payments"
PORTIONS = 2


def config(kind: str, folder: Path, jars: str) -> dict[str, Any]:
    if kind == "delta":
        return {
            "spark.jars": jars,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return {
        "spark.jars": jars,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "warehouse"),
    }


def main(kind: str, folder: Path, jars: str) -> None:
    with semel.spark.session(config=config(kind, folder, jars)) as spark:
        to_table: paired_sinks.Sink
        if kind == "delta":
            to_table = partial(paired_sinks.to_delta, folder / "table")
        else:
            spark.sql(f"create table {TABLE} (account string, cents bigint) using iceberg")
            to_table = partial(paired_sinks.to_iceberg, TABLE)
        ran: Counter[int] = Counter()

        def die(batch: DataFrame, batch_id: int) -> None:
            ran[batch_id] += 1
            if ran[batch_id] == 1:
                raise RuntimeError("the driver dies")

        sink = paired_sinks.in_turn(
            to_table, die, semel.spark.exactly_once(paired_sinks.receipts, topic="receipts")
        )
        for number in range(PORTIONS):
            values = [json.dumps(payment) for payment in paired_sinks.PAYMENTS[number::PORTIONS]]
            semel.write("payments", {"value": values}, bootstrap_servers=spark.bootstrap_servers)
            reader = spark.readStream.format("semel").option("subscribe", "payments")
            payments = paired_sinks.parsed(reader.option("startingOffsets", "earliest").load())
            writer = payments.writeStream.foreachBatch(sink)
            checkpoint = folder / "checkpoint"
            with suppress(StreamingQueryException):
                queries.finish(writer, checkpoint)
            queries.finish(writer, checkpoint)
            queries.forget_commits(checkpoint, number)
            queries.finish(writer, checkpoint)
        if kind == "delta":
            table = spark.read.format("delta").load(str(folder / "table"))
        else:
            # The query has a session of its own, and Iceberg remembers tables in each.
            spark.sql(f"refresh table {TABLE}")
            table = spark.table(TABLE)
        receipts = semel.read("receipts", bootstrap_servers=spark.bootstrap_servers)
        written = {
            "ran": dict(ran),
            "table": sorted([row.account, row.cents] for row in table.collect()),
            "topic": sorted(
                [receipt["account"], receipt["cents"]]
                for receipt in map(json.loads, receipts.column("value").to_pylist())
            ),
        }
        sys.stdout.write(json.dumps(written))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
