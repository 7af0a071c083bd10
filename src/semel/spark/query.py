"""What a function of `foreachBatch` asks of the query it works for, and of where that runs."""

from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from semel.errors import ConfigError
from semel.spark.connect_query import Home
from semel.spark.offsets import Offsets
from semel.spark.task import Origin
from semel.spark.turn_service import DriverAddress

PORT_MAX = 65_535
_PORT_RETRIES_DEFAULT = "16"

SPARK_FAILURES: tuple[type[Exception], ...]
"""What a job that fails is told by."""
try:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    SPARK_FAILURES = (PySparkException, Py4JError)
except ImportError:  # A client of Spark Connect needs no Java.
    SPARK_FAILURES = (PySparkException,)


class RunningQuery(Protocol):
    @property
    def origin(self) -> Origin: ...

    def consumed(self, batch_id: int) -> Offsets | None:
        """Where this batch ends in the topics it reads; None if that is not known."""

    def is_stopped(self) -> bool:
        """Whether somebody has called `stop()`, so that what failed was cancelled."""


def running_query(spark: Any, home: Home | None, checkpoint: str | None) -> RunningQuery:
    """The query that has given a frame of this session to a function.

    On a Connect server the function has to know its `home`, and may be told the checkpoint.
    """
    if isinstance(spark, SparkSession):
        from semel.spark.classic_query import ClassicQuery

        return ClassicQuery(spark)
    if home is None:
        raise ConfigError(
            "exactly_once works within writeStream.foreachBatch only, and on Spark Connect it has "
            "to be made outside of the function that calls it"
        )
    return home.query(spark, checkpoint)


def refuse_speculation(spark: SparkSession) -> None:
    if spark.conf.get("spark.speculation", "false") == "true":
        raise ConfigError(
            "spark.speculation is on: of two copies of a task only one may write, and the "
            "other would fail the job; switch it off, or use writeStream.format('semel')"
        )


def driver_address(spark: SparkSession, first_port: int) -> DriverAddress:
    """Any free port for 0, else as many as Spark tries for its own."""
    host = spark.conf.get("spark.driver.host")
    assert host is not None, "Spark sets it when it starts"
    bind_host = spark.conf.get("spark.driver.bindAddress", None) or host
    retries = int(spark.conf.get("spark.port.maxRetries", None) or _PORT_RETRIES_DEFAULT)
    end = min(first_port + retries, PORT_MAX) + 1
    ports = range(first_port, end) if first_port else (0,)
    # Spark writes addresses of version 6 in brackets.
    return DriverAddress(host.strip("[]"), bind_host.strip("[]"), ports)
