"""Enrich orders and add up revenue: two topics, written in one transaction for each micro-batch.

    python -m examples.orders                 # on a broker that is started for it
    python -m examples.orders 127.0.0.1:9092  # on one that runs already

Each run has topics of its own, and can be repeated.
"""

import json
import sys
import tempfile
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import semel
from examples.new_topics import name_of_run
from semel.spark import Session, exactly_once, session

PRICES_CENTS = {"apples": 349, "bread": 520, "coffee": 1249}
ORDERS: list[dict[str, Any]] = [
    {"order": n, "product": list(PRICES_CENTS)[n % 3], "quantity": 1 + n % 4} for n in range(60)
]
ORDER = "order int, product string, quantity int"


def main(spark: Session) -> dict[str, list[dict[str, Any]]]:
    prefix = name_of_run("orders")
    orders, enriched, revenue = f"{prefix}-in", f"{prefix}-enriched", f"{prefix}-revenue"
    table = pa.table({"value": [json.dumps(order).encode() for order in ORDERS]})
    semel.write(orders, table, bootstrap_servers=spark.bootstrap_servers)
    prices = spark.createDataFrame(list(PRICES_CENTS.items()), "product string, price_cents int")

    def results(batch: DataFrame, batch_id: int) -> dict[str, DataFrame]:
        amounts = (
            batch.select(f.from_json(f.col("value").cast("string"), ORDER).alias("order"))
            .select("order.*")
            .join(f.broadcast(prices), "product")
            .withColumn("amount_cents", f.col("price_cents") * f.col("quantity"))
        )
        sums = amounts.groupBy("product").agg(f.sum("amount_cents").alias("amount_cents"))
        return {
            enriched: amounts.select(f.to_json(f.struct("order", "amount_cents")).alias("value")),
            revenue: sums.select(f.to_json(f.struct("product", "amount_cents")).alias("value")),
        }

    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            spark.readStream.format("semel")
            .option("subscribe", orders)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 40)
            .load()
            .writeStream.foreachBatch(exactly_once(results, marker_topic=enriched))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return {
        name: [
            json.loads(value)
            for value in semel.read(topic, bootstrap_servers=spark.bootstrap_servers)
            .column("value")
            .to_pylist()
        ]
        for name, topic in (("enriched", enriched), ("revenue", revenue))
    }


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        for added in main(spark_session)["revenue"]:
            print(f"{added['product']:8} {added['amount_cents'] / 100:10.2f}")
