"""Count clicks in windows of ten minutes, by the time of the event, and let late ones in.

    python -m examples.windows                 # on a broker that is started for it
    python -m examples.windows 127.0.0.1:9092  # on one that runs already

A window is written once, when the watermark has passed its end. The stream runs until what is there
is read, so that the window of the newest clicks stays open in the checkpoint.
"""

import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import functions as f

import semel
from examples.new_topics import name_of_run
from semel.spark import Session, session

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLICKS = [
    *[(minute, f"page-{minute % 2}") for minute in range(40)],
    (27, "page-0"),  # Late, and within the fifteen minutes that are waited for.
    (45, "page-1"),  # By this the watermark passes half past twelve.
]
_CLICK = "at timestamp, page string"


def main(spark: Session) -> dict[tuple[str, str], int]:
    prefix = name_of_run("windows")
    clicks, counts = f"{prefix}-clicks", f"{prefix}-counts"
    for some in (CLICKS[:40], CLICKS[40:]):
        values = [
            json.dumps({"at": (BEGIN + timedelta(minutes=minute)).isoformat(), "page": page})
            for minute, page in some
        ]
        semel.write(clicks, pa.table({"value": values}), bootstrap_servers=spark.bootstrap_servers)

    counted = (
        spark.readStream.format("semel")
        .option("subscribe", clicks)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 40)
        .load()
        .select(f.from_json(f.col("value").cast("string"), _CLICK).alias("click"))
        .select("click.*")
        .withWatermark("at", "15 minutes")
        .groupBy(f.window("at", "10 minutes"), "page")
        .count()
        .select(
            f.concat_ws(" ", f.date_format("window.start", "HH:mm"), "page").alias("key"),
            f.col("count").cast("string").alias("value"),
        )
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            counted.writeStream.format("semel")
            .option("topic", counts)
            .option("checkpointLocation", checkpoint)
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    rows = semel.read(counts, bootstrap_servers=spark.bootstrap_servers).to_pylist()
    assert len(rows) == len({row["key"] for row in rows}), "each window once"
    found = {}
    for row in rows:
        start, page = row["key"].decode().split(" ")
        found[start, page] = int(row["value"])
    return found


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        for (start, page), count in sorted(main(spark_session).items()):
            print(f"{start} {page} {count:3}")
