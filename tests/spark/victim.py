"""A pipeline to be killed: `python victim.py SINK MASTER SERVERS FOLDER IN OUT TIMEOUT_MS`.

It copies the topic IN to the topic OUT, both of which exist, in batches of 20 rows, by the
sink that is named, up to what is there when it starts.
"""

import os
import sys

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

import semel.spark
from spark.steps import HaltingSource, halt, halting_exactly_once

ROWS_PER_BATCH = 20

Options = dict[str, str]


def default(writer: DataStreamWriter, options: Options) -> DataStreamWriter:
    return writer.format("halting").options(**options)


def volume(writer: DataStreamWriter, options: Options) -> DataStreamWriter:
    return writer.foreachBatch(halting_exactly_once(**options))


def within_function(writer: DataStreamWriter, options: Options) -> DataStreamWriter:
    def save(frame: DataFrame, batch_id: int) -> None:
        frame.write.format("halting").mode("append").options(**options).save()

    return writer.foreachBatch(save)


SINKS = {"default": default, "volume": volume, "write": within_function}


def main(
    sink: str, master: str, servers: str, folder: str, source: str, target: str, timeout_ms: str
) -> None:
    config = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.executorEnv.SEMEL_TEST_HALTS": os.environ["SEMEL_TEST_HALTS"],
        # An executor that is killed on purpose is not a reason to give up.
        "spark.task.maxFailures": "8",
    }
    with semel.spark.session(master, broker=servers, config=config) as spark:
        assert spark._jvm is not None
        jvm_id = int(spark._jvm.ProcessHandle.current().pid())
        halt("started", jvm_id=jvm_id)
        spark.dataSource.register(HaltingSource)
        rows = (
            spark.readStream.format("semel")
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
            .load()
            .select("key", "value")
        )
        options = {"topic": target, "kafka.transaction.timeout.ms": timeout_ms}
        query = (
            SINKS[sink](rows.writeStream, options)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
