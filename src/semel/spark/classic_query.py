"""A query in the process of its driver, where the JVM can be asked about it."""

import logging
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from semel.errors import ConfigError
from semel.spark.checkpoint import offsets_in
from semel.spark.task import PROPERTIES, Origin, origin_from
from semel.types import TopicPartition

_log = logging.getLogger(__name__)


class ClassicQuery:
    """To be asked in the thread that `foreachBatch` runs in, which knows its query."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        context = spark.sparkContext
        self.origin: Origin = origin_from(
            {name: context.getLocalProperty(name) for name in PROPERTIES}
        )
        if not self.origin.query_id:
            raise ConfigError(
                "exactly_once works within writeStream.foreachBatch only, and there in the thread "
                "that Spark runs the function in: wrap what another thread runs in "
                "pyspark.inheritable_thread_target"
            )

    def consumed(self, batch_id: int) -> dict[TopicPartition, int] | None:
        try:
            offsets = self._execution().offsetLog().get(batch_id).get().offsets()
            lines = [offsets.apply(number) for number in range(offsets.size())]
            return offsets_in([line.get().json() for line in lines if line.isDefined()])
        except (Py4JError, LookupError) as error:
            # These are names within Spark, which may change: rows go on without the offsets.
            _log.warning("consumed offsets are left out of batch %d: %s", batch_id, error)
            return None

    def is_stopped(self) -> bool:
        try:
            return not self._execution().isActive()
        except (Py4JError, LookupError):
            return False

    def _execution(self) -> Any:
        """`foreachBatch` hands out a copy of the session, which does not know its queries."""
        assert self._spark._jvm is not None
        sessions = self._spark._jvm.org.apache.spark.sql.classic.SparkSession
        for found in (sessions.getDefaultSession(), sessions.getActiveSession()):
            if found.isDefined():
                query = found.get().streams().get(self.origin.query_id)
                if query is not None:
                    return query.streamingQuery()
        raise LookupError("the query is not one of the default session")
