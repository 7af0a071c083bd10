"""The Spark application: enrich orders, add up revenue, write both topics; end with its input.

    python -m examples.demo.pipeline exactly-once SERVERS PREFIX CHECKPOINT

It reads PREFIX-orders until its standard input is closed. Killed and started again on the same
checkpoint, it goes on where it was.
"""

import sys
import threading
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from examples.demo.at_least_once import at_least_once
from examples.demo.orders import PRODUCTS
from examples.demo.topics import Topics
from semel.spark import exactly_once, session

ORDER = "order string, customer string, product int, quantity int"
ORDERS_PER_BATCH = 4_000
# As on a cluster, a failed task is tried again.
MASTER = "local[2,4]"


def results(topics: Topics, batch: DataFrame, batch_id: int) -> dict[str, DataFrame]:
    """Each order with its amount, and what this batch adds to the revenue of each category."""
    products = batch.sparkSession.createDataFrame(
        [(number, *product) for number, product in PRODUCTS.items()],
        "product int, name string, category string, price_cents int",
    )
    enriched = (
        batch.select(f.from_json(f.col("value").cast("string"), ORDER).alias("order"))
        .select("order.*")
        .join(f.broadcast(products), "product")
        .withColumn("amount_cents", f.col("price_cents") * f.col("quantity"))
    )
    revenue = (
        enriched.groupBy("category")
        .agg(f.count("*").alias("orders"), f.sum("amount_cents").alias("revenue_cents"))
        .withColumn("batch", f.lit(batch_id))
    )
    return {
        topics.enriched: enriched.select(
            f.col("order").alias("key"),
            f.to_json(f.struct("order", "customer", "name", "amount_cents")).alias("value"),
        ),
        topics.revenue: revenue.select(
            f.col("category").alias("key"),
            f.to_json(f.struct("category", "orders", "revenue_cents", "batch")).alias("value"),
        ),
    }


def main(delivery: str, bootstrap_servers: str, prefix: str, checkpoint: str) -> None:
    topics = Topics(prefix)
    transform = partial(results, topics)
    with session(MASTER, broker=bootstrap_servers) as spark:
        orders = (
            spark.readStream.format("semel")
            .option("subscribe", topics.orders)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", ORDERS_PER_BATCH)
            .load()
        )
        sink = (
            exactly_once(
                transform, bootstrap_servers=bootstrap_servers, marker_topic=topics.enriched
            )
            if delivery == "exactly-once"
            else at_least_once(transform, bootstrap_servers)
        )
        query = (
            orders.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).start()
        )
        finishing = threading.Thread(target=_finish_with_input, args=[query], daemon=True)
        finishing.start()
        query.awaitTermination()
        finishing.join()


def _finish_with_input(query: StreamingQuery) -> None:
    sys.stdin.read()
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
