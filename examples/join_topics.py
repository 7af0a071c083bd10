"""Join two topics with PySpark, payments with the orders they are for, each pair exactly once.

    python -m examples.join_topics                 # on a broker that is started for it
    python -m examples.join_topics 127.0.0.1:9092  # on one that runs already

Each run has topics of its own, and can be repeated.
"""

import sys
import tempfile

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import semel
from examples.new_topics import name_of_run
from semel.spark import Session, session

ORDERS = {f"order-{n}": f"{n + 1} apples" for n in range(20)}
PAYMENTS = {f"order-{n}": f"{(n + 1) * 3.49:.2f}" for n in range(0, 20, 2)}


def main(spark: Session) -> dict[str, str]:
    prefix = name_of_run("join")
    orders, payments, paid = f"{prefix}-orders", f"{prefix}-payments", f"{prefix}-paid"
    for topic, rows in ((orders, ORDERS), (payments, PAYMENTS)):
        table = pa.table(
            {
                "key": [key.encode() for key in rows],
                "value": [value.encode() for value in rows.values()],
            }
        )
        semel.write(topic, table, bootstrap_servers=spark.bootstrap_servers)

    left, right = _stream(spark, orders, "ordered"), _stream(spark, payments, "amount")
    joined = left.join(right, "key").select(
        "key", f.concat_ws(" for ", "ordered", "amount").alias("value")
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            joined.writeStream.format("semel")
            .option("topic", paid)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    read = semel.read(paid, bootstrap_servers=spark.bootstrap_servers).to_pylist()
    assert len(read) == len({row["key"] for row in read}), "each pair once"
    return {row["key"].decode(): row["value"].decode() for row in read}


def _stream(spark: Session, topic: str, column: str) -> DataFrame:
    return (
        spark.readStream.format("semel")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(f.col("key").cast("string"), f.col("value").cast("string").alias(column))
    )


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        for order, text in sorted(main(spark_session).items()):
            print(f"{order:9} {text}")
