"""One stream into a topic and, beside it, into a database or files: exactly once in both.

    python -m examples.paired_sinks                 # on a broker that is started for it
    python -m examples.paired_sinks 127.0.0.1:9092  # on one that runs already

Spark runs a batch again when the driver has died before it noted the batch as done. `exactly_once`
knows a batch that it has written. Each function below makes another sink know it too, so that a
batch may be run as often as Spark likes. DuckDB and Parquet need nothing but PyPI, and are what is
run here.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import semel
from examples.new_topics import name_of_run
from semel.spark import Session, exactly_once, session

Sink = Callable[[DataFrame, int], None]

PAYMENTS: list[dict[str, Any]] = [
    {"account": f"account-{n % 7}", "cents": 100 + n} for n in range(90)
]
_PAYMENT = "account string, cents long"


def in_turn(*sinks: Sink) -> Sink:
    """Each of them has the same rows, which are computed once."""

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        try:
            for sink in sinks:
                sink(batch, batch_id)
        finally:
            batch.unpersist()

    return write


def query_of(batch: DataFrame) -> str:
    """It stays the same over restarts, and is another one when the checkpoint was deleted."""
    query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "this is called within foreachBatch"
    return query_id


_TABLES = """
create table if not exists balances (account text primary key, cents bigint not null);
create table if not exists batches (query text primary key, batch_id bigint not null);
"""
_ADD = """
insert into balances select account, sum(cents) from payments group by account
on conflict (account) do update set cents = balances.cents + excluded.cents
"""
_ADD_ONE = """
insert into balances values (%s, %s)
on conflict (account) do update set cents = balances.cents + excluded.cents
"""
_NOTE = """
insert into batches values (?, ?)
on conflict (query) do update set batch_id = excluded.batch_id
"""


def to_duckdb(database: Path, batch: DataFrame, batch_id: int) -> None:
    """The rows and the number of their batch, in one transaction of the database."""
    import duckdb

    query = query_of(batch)
    with duckdb.connect(str(database)) as connection:
        connection.execute(_TABLES)
        connection.begin()
        noted = connection.execute("select batch_id from batches where query = ?", [query])
        if any(last >= batch_id for (last,) in noted.fetchall()):
            return  # It was committed, and Spark did not come to know.
        connection.register("payments", batch.toArrow())
        connection.execute(_ADD)
        connection.execute(_NOTE, [query, batch_id])
        connection.commit()


def to_parquet(folder: Path, batch: DataFrame, batch_id: int) -> None:
    """A folder for each batch: what an attempt left that did not end is overwritten.

    Spark writes the file `_SUCCESS` last, so that a reader knows which folders are whole.
    """
    target = folder / f"query={query_of(batch)}" / f"batch={batch_id}"
    if not (target / "_SUCCESS").exists():
        batch.write.mode("overwrite").parquet(str(target))


def to_postgresql(address: str, batch: DataFrame, batch_id: int) -> None:
    """As DuckDB, with sums that are few; many rows go through a table that tasks write by JDBC."""
    import psycopg

    query = query_of(batch)
    sums = batch.groupBy("account").agg(f.sum("cents").cast("long")).collect()
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(_TABLES)
        # A driver that was thought dead and wakes up waits here, and then finds the number.
        cursor.execute("insert into batches values (%s, -1) on conflict do nothing", [query])
        cursor.execute("select batch_id from batches where query = %s for update", [query])
        if any(last >= batch_id for (last,) in cursor.fetchall()):
            return
        cursor.executemany(_ADD_ONE, [tuple(each) for each in sums])
        cursor.execute(_NOTE.replace("?", "%s"), [query, batch_id])


def to_delta(table: Path, batch: DataFrame, batch_id: int) -> None:
    """Delta skips a version that a writer of this name has written."""
    (
        batch.write.format("delta")
        .mode("append")
        .option("txnAppId", query_of(batch))
        .option("txnVersion", batch_id)
        .save(str(table))
    )


def to_iceberg(table: str, batch: DataFrame, batch_id: int) -> None:
    """A snapshot of the table says of which batch it is."""
    of_batch = f"{query_of(batch)}/{batch_id}"
    snapshots = batch.sparkSession.table(f"{table}.snapshots")
    if snapshots.where(f.col("summary")["semel-batch"] == of_batch).isEmpty():
        batch.writeTo(table).option("snapshot-property.semel-batch", of_batch).append()


def payments_of(spark: Session, topic: str) -> DataFrame:
    return parsed(
        spark.readStream.format("semel")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 40)
        .load()
    )


def parsed(records: DataFrame) -> DataFrame:
    payment = f.from_json(f.col("value").cast("string"), _PAYMENT).alias("payment")
    return records.select(payment).select("payment.*")


def receipts(batch: DataFrame, batch_id: int) -> DataFrame:
    return batch.select(f.col("account").alias("key"), f.to_json(f.struct("*")).alias("value"))


def run(payments: DataFrame, sink: Sink, checkpoint: Path) -> None:
    query = (
        payments.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


class Written(NamedTuple):
    """By account: what was paid, as each of the three has it."""

    topic: dict[str, int]
    database: dict[str, int]
    files: dict[str, int]


def main(spark: Session) -> Written:
    prefix = name_of_run("paired")
    payments, paid = f"{prefix}-payments", f"{prefix}-receipts"
    table = pa.table({"value": [json.dumps(payment) for payment in PAYMENTS]})
    semel.write(payments, table, bootstrap_servers=spark.bootstrap_servers)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sink = in_turn(
            partial(to_duckdb, folder / "balances.duckdb"),
            partial(to_parquet, folder / "payments"),
            exactly_once(receipts, topic=paid),
        )
        run(payments_of(spark, payments), sink, folder / "checkpoint")
        return found(spark, paid, folder)


def found(spark: Session, topic: str, folder: Path) -> Written:
    import duckdb

    read = semel.read(topic, bootstrap_servers=spark.bootstrap_servers)
    in_topic: Counter[str] = Counter()
    for value in read.column("value").to_pylist():
        receipt = json.loads(value)
        in_topic[receipt["account"]] += receipt["cents"]
    with duckdb.connect(str(folder / "balances.duckdb"), read_only=True) as connection:
        balances = connection.execute("select account, cents from balances").fetchall()
    files = spark.read.parquet(str(folder / "payments")).groupBy("account").agg(f.sum("cents"))
    return Written(dict(in_topic), dict(balances), {row[0]: row[1] for row in files.collect()})


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        written = main(spark_session)
        for account, cents in sorted(written.topic.items()):
            same = written.database[account] == written.files[account] == cents
            print(f"{account} {cents / 100:8.2f} {'in all three' if same else 'NOT ALIKE'}")
