"""A client of a Connect server: `python connect_client.py ADDRESS BROKER FOLDER`.

It copies the topic `orders` to three others, in batches of 200 rows: to `copied` by the default
sink, and to `one` and `two` by `exactly_once`, in two queries that read one frame at the same time.
For each checkpoint in FOLDER it says the id of its query.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import semel.spark

ROWS_PER_BATCH = "200"


def main(address: str, broker: str, folder: Path) -> None:
    spark = SparkSession.builder.remote(address).getOrCreate()

    def orders() -> DataFrame:
        reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", broker)
        reader = reader.option("subscribe", "orders").option("startingOffsets", "earliest")
        return reader.option("maxOffsetsPerTrigger", ROWS_PER_BATCH).load().select("key", "value")

    def numbered(frame: DataFrame, batch_id: int) -> dict[str, DataFrame]:
        return {"two": frame.selectExpr("key", "concat('number ', value) AS value")}

    shared = orders()
    writers: dict[str, DataStreamWriter] = {
        "copied": orders()
        .writeStream.format("semel")
        .option("kafka.bootstrap.servers", broker)
        .option("topic", "copied"),
        "one": shared.writeStream.foreachBatch(
            semel.spark.exactly_once(topic="one", bootstrap_servers=broker)
        ),
        "two": shared.writeStream.foreachBatch(
            semel.spark.exactly_once(numbered, bootstrap_servers=broker)
        ),
    }
    started = {}
    for name, writer in writers.items():
        chosen = writer.option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
        started[name] = chosen.start()
    for name, query in started.items():
        query.awaitTermination()
        sys.stdout.write(f"{name} {query.id}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
