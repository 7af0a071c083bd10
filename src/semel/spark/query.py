"""What the driver knows of a running query: whose batch it is, what it reads, where it runs."""

import logging
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from semel.errors import ConfigError
from semel.spark.checkpoint import offsets_in
from semel.spark.task import QUERY_ID, RUN_ID, Origin, origin_from
from semel.spark.turn_service import DriverAddress
from semel.types import TopicPartition

_log = logging.getLogger(__name__)

PORT_MAX = 65_535
_PORT_RETRIES_DEFAULT = "16"


def origin_of_query(spark: SparkSession) -> Origin:
    context = spark.sparkContext
    origin = origin_from({name: context.getLocalProperty(name) for name in (QUERY_ID, RUN_ID)})
    if not origin.query_id:
        raise ConfigError("exactly_once works within writeStream.foreachBatch only")
    return origin


def consumed_by(spark: SparkSession, batch_id: int) -> dict[TopicPartition, int] | None:
    """Where this batch ends in the topics it reads; None if the query does not tell."""
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
    try:
        execution = _execution(spark, query_id)
        offsets = execution.offsetLog().get(batch_id).get().offsets()
        lines = [offsets.apply(number) for number in range(offsets.size())]
        return offsets_in([line.get().json() for line in lines if line.isDefined()])
    except (Py4JError, LookupError) as error:
        # These are names within Spark, which may change: rows go on without the offsets.
        _log.warning("consumed offsets are left out of batch %d: %s", batch_id, error)
        return None


def is_stopped(spark: SparkSession) -> bool:
    """Whether somebody has called `stop()`, so that what failed was cancelled."""
    try:
        execution = _execution(spark, spark.sparkContext.getLocalProperty(QUERY_ID))
        return not execution.isActive()
    except (Py4JError, LookupError):
        return False


def _execution(spark: SparkSession, query_id: str | None) -> Any:
    """`foreachBatch` hands out a copy of the session, which does not know its queries."""
    assert spark._jvm is not None
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
    for found in (sessions.getDefaultSession(), sessions.getActiveSession()):
        if found.isDefined():
            query = found.get().streams().get(query_id)
            if query is not None:
                return query.streamingQuery()
    raise LookupError("the query is not one of the default session")


def driver_address(spark: SparkSession, first_port: int) -> DriverAddress:
    """Any free port for 0, else as many as Spark tries for its own."""
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host")
    assert host is not None, "Spark sets it when it starts"
    bind_host = conf.get("spark.driver.bindAddress") or host
    retries = int(conf.get("spark.port.maxRetries", _PORT_RETRIES_DEFAULT))
    end = min(first_port + retries, PORT_MAX) + 1
    ports = range(first_port, end) if first_port else (0,)
    # Spark writes addresses of version 6 in brackets.
    return DriverAddress(host.strip("[]"), bind_host.strip("[]"), ports)
