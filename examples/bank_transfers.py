"""Book transfers with PySpark while a reader looks on: for it, the total never changes.

    python -m examples.bank_transfers                 # on a broker that is started for it
    python -m examples.bank_transfers 127.0.0.1:9092  # on one that runs already

Each run has topics of its own, and can be repeated.

A transfer becomes two bookings, which may lie on different partitions. Each micro-batch is one
transaction, so that a reader of committed records never finds money that was taken from one
account and not yet given to the other.
"""

import json
import sys
import tempfile
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import semel
from examples.new_topics import create_topics, name_of_run
from semel.spark import Session, exactly_once, session

TRANSFERS: list[dict[str, Any]] = [
    {"giver": f"account-{n % 7}", "taker": f"account-{n % 11}", "cents": 1 + n % 50}
    for n in range(400)
]
TRANSFER = "giver string, taker string, cents int"
PARTITIONS = 4


class Look(NamedTuple):
    """What a reader found at one moment."""

    bookings: int
    total_cents: int


class Books(NamedTuple):
    balances_cents: dict[str, int]
    looks: list[Look]
    """Taken while the transfers were booked."""


def main(spark: Session) -> Books:
    prefix = name_of_run("bank")
    transfers, bookings = f"{prefix}-transfers", f"{prefix}-bookings"
    servers = spark.bootstrap_servers
    create_topics([transfers, bookings], servers, PARTITIONS)
    table = pa.table({"value": [json.dumps(each).encode() for each in TRANSFERS]})
    semel.write(transfers, table, bootstrap_servers=servers)

    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            spark.readStream.format("semel")
            .option("subscribe", transfers)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", len(TRANSFERS) // 4)
            .load()
            .writeStream.foreachBatch(exactly_once(booked, topic=bookings))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        looks = []
        while query.isActive:
            found = _bookings(bookings, servers)
            looks.append(Look(len(found), sum(cents for _, cents in found)))
        query.awaitTermination()
    balances_cents: Counter[str] = Counter()
    for account, cents in _bookings(bookings, servers):
        balances_cents[account] += cents
    return Books(dict(balances_cents), looks)


def booked(batch: DataFrame, batch_id: int) -> DataFrame:
    """Two bookings for each transfer."""
    transfer = f.from_json(f.col("value").cast("string"), TRANSFER)
    transfers = batch.select(transfer.alias("transfer")).select("transfer.*")
    taken = transfers.select(f.col("giver").alias("key"), (-f.col("cents")).alias("cents"))
    given = transfers.select(f.col("taker").alias("key"), "cents")
    return taken.unionAll(given).select("key", f.col("cents").cast("string").alias("value"))


def _bookings(topic: str, bootstrap_servers: str) -> list[tuple[str, int]]:
    read = semel.read(topic, bootstrap_servers=bootstrap_servers, columns=["key", "value"])
    return [(row["key"].decode(), int(row["value"])) for row in read.to_pylist()]


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        books = main(spark_session)
    for name, balance_cents in sorted(books.balances_cents.items()):
        print(f"{name:10} {balance_cents / 100:8.2f}")
    wrong = sum(look.total_cents != 0 for look in books.looks)
    print(f"{len(books.looks)} looks while it was booked, {wrong} found a total that is not 0.00")
    raise SystemExit(wrong > 0)
