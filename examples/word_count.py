"""Count the words of a topic with PySpark, each line exactly once.

    python -m examples.word_count                 # on a broker that is started for it
    python -m examples.word_count 127.0.0.1:9092  # on one that runs already

Each run has topics of its own, and can be repeated.
"""

import sys
import tempfile
from collections import Counter

import pyarrow as pa
from pyspark.sql import functions as f

import semel
from examples.new_topics import name_of_run
from semel.spark import Session, exactly_once, session

LINES = ["all that is once", "once is enough", "all is well that ends well"]


def main(spark: Session) -> dict[str, int]:
    prefix = name_of_run("word-count")
    lines, counts = f"{prefix}-lines", f"{prefix}-counts"
    table = pa.table({"value": [line.encode() for line in LINES]})
    semel.write(lines, table, bootstrap_servers=spark.bootstrap_servers)

    words = (
        spark.readStream.format("semel")
        .option("subscribe", lines)
        .option("startingOffsets", "earliest")
        .load()
        .select(f.explode(f.split(f.col("value").cast("string"), " ")).alias("key"))
    )
    counted = (
        words.groupBy("key").count().select("key", f.col("count").cast("string").alias("value"))
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            # In update mode Spark gives the new counts to foreachBatch, and to no Python sink.
            counted.writeStream.foreachBatch(exactly_once(topic=counts))
            .option("checkpointLocation", checkpoint)
            .outputMode("update")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    read = semel.read(counts, bootstrap_servers=spark.bootstrap_servers, columns=["key", "value"])
    # The newest count of a word is the last one of its key.
    return {row["key"].decode(): int(row["value"]) for row in read.to_pylist()}


def expected() -> dict[str, int]:
    return dict(Counter(word for line in LINES for word in line.split()))


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        for word, count in sorted(main(spark_session).items()):
            print(f"{count:3} {word}")
