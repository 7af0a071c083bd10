"""A topic and a table, each row once in both: `python other_sinks.py KIND FOLDER PLACE`.

The place is the jars of a lake, or the address of a database. Each portion is written by a driver
that as good as dies when the table has it and the topic has not, by the next one, and by one that
finds what is done and was not noted by Spark.
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
from semel.spark import Session
from spark import queries

TABLE = "lake.payments"
PORTIONS = 2


def config(kind: str, folder: Path, place: str) -> dict[str, Any]:
    if kind == "postgresql":
        return {}
    if kind == "delta":
        return {
            "spark.jars": place,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return {
        "spark.jars": place,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "warehouse"),
    }


def sink_of(kind: str, spark: Session, folder: Path, place: str) -> paired_sinks.Sink:
    if kind == "postgresql":
        return partial(paired_sinks.to_postgresql, place)
    if kind == "delta":
        return partial(paired_sinks.to_delta, folder / "table")
    spark.sql(f"create table {TABLE} (account string, cents bigint) using iceberg")
    return partial(paired_sinks.to_iceberg, TABLE)


def rows_of(kind: str, spark: Session, folder: Path, place: str) -> list[list[Any]]:
    if kind == "postgresql":
        import psycopg

        with psycopg.connect(place) as connection:
            found = connection.execute("select account, cents from balances").fetchall()
        return sorted(map(list, found))
    if kind == "delta":
        table = spark.read.format("delta").load(str(folder / "table"))
    else:
        # The query has a session of its own, and Iceberg remembers tables in each.
        spark.sql(f"refresh table {TABLE}")
        table = spark.table(TABLE)
    return sorted([row.account, row.cents] for row in table.collect())


def main(kind: str, folder: Path, place: str) -> None:
    with semel.spark.session(config=config(kind, folder, place)) as spark:
        to_table = sink_of(kind, spark, folder, place)
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
        receipts = semel.read("receipts", bootstrap_servers=spark.bootstrap_servers)
        written = {
            "ran": dict(ran),
            "table": rows_of(kind, spark, folder, place),
            "topic": sorted(
                [receipt["account"], receipt["cents"]]
                for receipt in map(json.loads, receipts.column("value").to_pylist())
            ),
        }
        sys.stdout.write(json.dumps(written))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
