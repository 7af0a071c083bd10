"""Read Avro, compute, write Avro: with fastavro from PyPI, by the column.

    python -m examples.avro_records                 # on a broker that is started for it
    python -m examples.avro_records 127.0.0.1:9092  # on one that runs already

Where Spark has its package for Avro (`spark.jars.packages`, from Maven), `from_avro` and `to_avro`
of `pyspark.sql.avro.functions` do the same. A registry of schemas puts five bytes before each
record: a zero, and the number of the schema.
"""

import io
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa

import semel
from examples.new_topics import name_of_run
from semel.spark import Session, session

READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "celsius", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
_ARROW = pa.schema(
    [("sensor", pa.string()), ("celsius", pa.float64()), ("note", pa.string())],
)
READINGS: list[dict[str, Any]] = [
    {"sensor": f"sensor-{n % 3}", "celsius": 20 + n / 2, "note": "hot" if n > 15 else None}
    for n in range(20)
]


def to_bytes(schema: Any, record: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, record)
    return buffer.getvalue()


def from_bytes(schema: Any, value: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(value), schema, None)


def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = fastavro.parse_schema(READING)
    for batch in batches:
        readings = [from_bytes(schema, value) for value in batch.column("value").to_pylist()]
        yield pa.RecordBatch.from_pylist(readings, _ARROW)


def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = fastavro.parse_schema(READING)
    for batch in batches:
        values = [to_bytes(schema, reading) for reading in batch.to_pylist()]
        yield pa.RecordBatch.from_arrays([batch.column("sensor"), values], ["key", "value"])


def main(spark: Session) -> list[dict[str, Any]]:
    prefix = name_of_run("avro")
    readings, selected = f"{prefix}-readings", f"{prefix}-hot"
    schema = fastavro.parse_schema(READING)
    table = pa.table({"value": [to_bytes(schema, reading) for reading in READINGS]})
    semel.write(readings, table, bootstrap_servers=spark.bootstrap_servers)
    hot = (
        spark.readStream.format("semel")
        .option("subscribe", readings)
        .option("startingOffsets", "earliest")
        .load()
        .select("value")
        .mapInArrow(decode, "sensor string, celsius double, note string")
        .where("note = 'hot'")
        .mapInArrow(encode, "key string, value binary")
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            hot.writeStream.format("semel")
            .option("topic", selected)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    values = semel.read(selected, bootstrap_servers=spark.bootstrap_servers).column("value")
    return [from_bytes(schema, value) for value in values.to_pylist()]


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        for reading in main(spark_session):
            print(f"{reading['sensor']} {reading['celsius']:5.1f} {reading['note']}")
