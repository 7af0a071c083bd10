"""A query with three sinks: `python paired_victim.py SERVERS NAME FOLDER BATCH STEP`.

At the first time that it comes to the step of this batch it kills its JVM and itself: the steps are
0 before all sinks, and 1 to 3 behind each of them.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from examples import paired_sinks
from pyspark.sql import DataFrame

import semel.spark
from spark import queries


def main(servers: str, name: str, folder: Path, dying: int, step: int) -> None:
    with semel.spark.session(broker=servers) as spark:
        assert spark._jvm is not None
        jvm_id = int(spark._jvm.ProcessHandle.current().pid())

        def die(here: int, batch: DataFrame, batch_id: int) -> None:
            died = folder / "died"
            if (here, batch_id) == (step, dying) and not died.exists():
                died.touch()
                os.kill(jvm_id, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

        sink = paired_sinks.in_turn(
            partial(die, 0),
            partial(paired_sinks.to_duckdb, folder / "balances.duckdb"),
            partial(die, 1),
            partial(paired_sinks.to_parquet, folder / "payments"),
            partial(die, 2),
            semel.spark.exactly_once(paired_sinks.receipts, topic=name),
            partial(die, 3),
        )
        payments = paired_sinks.payments_of(spark, f"{name}-in")
        queries.finish(payments.writeStream.foreachBatch(sink), folder / "checkpoint")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
