"""Reads a record of a broker of its own in each of two sessions, and says what it was."""

import sys

import pyarrow as pa

import semel
import semel.spark
from semel.testing import Broker


def read(value: str) -> str:
    """By way of a session that names its broker, and a source that does not."""
    with Broker() as broker, semel.spark.session(broker=broker) as spark:
        table = pa.table({"value": [value.encode()]})
        semel.write("in", table, bootstrap_servers=broker.bootstrap_servers)
        rows = spark.read.format("semel").option("subscribe", "in").load().select("value")
        return ",".join(bytes(row.value).decode() for row in rows.collect())


if __name__ == "__main__":
    sys.stdout.write(f"{read('one')} {read('two')}\n")
