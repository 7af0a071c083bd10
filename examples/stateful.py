"""Tell of each third wrong password of a user: `transformWithState`, whose state is Spark's.

    python -m examples.stateful                 # on a broker that is started for it
    python -m examples.stateful 127.0.0.1:9092  # on one that runs already

The state belongs to the batch, and so does what is written: a batch that is run again begins with
the state that it had before, and what it has written already is skipped.
"""

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import semel
from examples.new_topics import name_of_run
from semel.spark import Session, session

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
USERS = ["ana", "bob", "ana", "eve", "eve", "ana", "eve", "eve", "eve", "bob", "eve"]
LIMIT = 3


class Failures(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count int")

    def handleInputRows(  # noqa: N802 - Spark's name.
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        (count,) = self._count.get() or (0,)
        for _ in rows:
            count += 1
            if count % LIMIT == 0:
                yield Row(key=key[0], value=f"{count} wrong passwords")
        self._count.update((count,))

    def close(self) -> None:
        """There is nothing of its own to close."""


def main(spark: Session) -> list[tuple[str, str]]:
    prefix = name_of_run("stateful")
    failures, alarms = f"{prefix}-failures", f"{prefix}-alarms"
    table = pa.table({"key": USERS, "value": ["wrong password"] * len(USERS)})
    semel.write(failures, table, bootstrap_servers=spark.bootstrap_servers)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
    told = (
        spark.readStream.format("semel")
        .option("subscribe", failures)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 4)
        .load()
        .select(f.col("key").cast("string").alias("user"))
        .groupBy("user")
        .transformWithState(
            statefulProcessor=Failures(),
            outputStructType="key string, value string",
            outputMode="append",
            timeMode="none",
        )
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            told.writeStream.format("semel")
            .option("topic", alarms)
            .option("checkpointLocation", checkpoint)
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    rows = semel.read(alarms, bootstrap_servers=spark.bootstrap_servers).to_pylist()
    return [(row["key"].decode(), row["value"].decode()) for row in rows]


if __name__ == "__main__":
    with session(broker=sys.argv[1] if len(sys.argv) > 1 else None) as spark_session:
        for user, text in main(spark_session):
            print(f"{user:5} {text}")
