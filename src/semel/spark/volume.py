"""`foreachBatch(exactly_once(...))`: micro-batches of any size, each in one transaction.

The driver opens the transaction, tasks write under its producer id and epoch, one at a time to each
partition, and the driver commits with the marker. Whatever fails, the driver takes the
next epoch, which rolls back and shuts out in one step, and runs the batch again.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from semel.client.cluster.blocking import Connected, shared
from semel.client.connecting.address import joined_bootstrap_servers
from semel.client.outcome import TransactionFailed
from semel.errors import ConfigError, RequestError
from semel.spark.committing import BatchTransaction
from semel.spark.connect_query import Home, home
from semel.spark.marker import Verdict, Written
from semel.spark.offsets import Offsets
from semel.spark.query import (
    PORT_MAX,
    SPARK_FAILURES,
    driver_address,
    refuse_speculation,
    running_query,
)
from semel.spark.rows import WRITTEN_COLUMNS, check_columns
from semel.spark.sentences import SentenceFirst, told_first
from semel.spark.sink_settings import SinkSettings, sink_options, sink_settings
from semel.spark.targets import destination_of
from semel.spark.turn_service import TurnService
from semel.spark.turns import Attempt, TurnRefused
from semel.spark.volume_tasks import WRITTEN, Writing
from semel.types import TopicPartition

_log = logging.getLogger(__name__)

Transform = Callable[[DataFrame, int], DataFrame | Mapping[str, DataFrame]]

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_RETRIES_DEFAULT = 3

_FAILURES: tuple[type[Exception], ...] = (
    *SPARK_FAILURES,
    TransactionFailed,
    RequestError,
    TurnRefused,
)

_TOLD_BY_TASK = re.compile(rf"\.{ConfigError.__name__}: (.+)")
"""There is only the text of what happened in a task."""
_LACKING = re.compile(r"No module named '[^']+'")
_OTHER_PYTHON = (
    "tasks run in a Python that lacks what they need ({lacking}): call semel.spark.register(spark) "
    "once the session is there, or set PYSPARK_PYTHON before it is started"
)

_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "timestamp": "timestamp",
    "partition": "int",
}


def exactly_once(
    transform: Transform | None = None,
    *,
    topic: str | None = None,
    bootstrap_servers: str | Sequence[str] | None = None,
    name: str | None = None,
    transactional_id: str | None = None,
    marker_topic: str | None = None,
    offsets_group: str | None = None,
    retries: int = _RETRIES_DEFAULT,
    driver_port: int = 0,
    options: Mapping[str, Any] | None = None,
) -> "ExactlyOnce":
    """A function for `foreachBatch` that writes each micro-batch exactly once.

    `transform(batch, batch_id)` gives what is written: a data frame with the columns of a sink,
    or several of them by topic, which appear together. Without it the batch itself is written.
    Of two sinks in one `foreachBatch` the second needs a `name`. `options` are those of the
    sink, such as `kafka.compression.type`; `retries` is how often a batch that failed is run again.

    Tasks ask the driver when to write, and have to reach it at `spark.driver.host`: at any free
    port, or, where a firewall has to know it, at `driver_port` or one of the next
    (`spark.port.maxRetries`).
    """
    servers = None if bootstrap_servers is None else joined_bootstrap_servers(bootstrap_servers)
    named = {
        "topic": topic,
        "kafka.bootstrap.servers": servers,
        "name": name,
        "transactionalId": transactional_id,
        "markerTopic": marker_topic,
        "offsetsGroup": offsets_group,
    }
    given = {key: value for key, value in named.items() if value is not None}
    read = sink_options({**(options or {}), **given})
    if "batchId" in read:
        raise ConfigError("option batchId is for batch jobs: a stream numbers its batches")
    if not 0 <= driver_port <= PORT_MAX:
        raise ConfigError(f"driver_port is {driver_port}: it has to be 0 to {PORT_MAX}")
    settings = sink_settings(read, is_for_volume=True)
    read.tell_unread()
    return ExactlyOnce(transform, settings, retries, driver_port)


class ExactlyOnce:
    _home: Home | None = None
    """Known on a Connect server only, where it comes pickled."""

    def __init__(
        self,
        transform: Transform | None,
        settings: SinkSettings,
        retries: int,
        driver_port: int,
    ) -> None:
        self._transform = transform
        self._settings = settings
        self._retries = retries
        self._driver_port = driver_port

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_home": home()}

    @SentenceFirst()
    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        try:
            self._run(frame, batch_id)
        except ConfigError as error:
            raise error.with_traceback(None) from told_first(error)

    def _run(self, frame: DataFrame, batch_id: int) -> None:
        spark = frame.sparkSession
        refuse_speculation(spark)
        query = running_query(spark, self._home, self._settings.checkpoint)
        consumed = query.consumed(batch_id) if self._settings.publishes_offsets else None
        batch = query.origin.marker(batch_id, consumed)
        transactional_id = self._settings.transactional_id_of(batch.query_id)
        connected = shared(self._settings.client)
        work = BatchTransaction(connected.cluster, self._settings, transactional_id, batch)
        for attempt in range(self._retries + 1):
            try:
                if connected.run(work.take_over()) is not Verdict.SKIP:
                    self._write(connected, work, frame, batch_id, consumed)
            except _FAILURES as error:
                # Also at the last failure, or readers would wait until the transaction times out;
                # and not by an abort, as until the next epoch a task that still runs could write.
                cause = connected.run(work.start_over(error))
                if _is_final(error) or query.is_stopped() or attempt == self._retries:
                    work.forget()
                    if lacking := _LACKING.search(str(error)):
                        raise ConfigError(_OTHER_PYTHON.format(lacking=lacking[0])) from error
                    if told := _TOLD_BY_TASK.search(str(error)):
                        raise ConfigError(told[1]) from error
                    raise cause from cause.__cause__
                _log.warning("batch %d of %s is run again: %s", batch_id, transactional_id, cause)
            except BaseException:
                # Whoever goes on after this needs a new epoch, as a transaction may be open.
                work.forget()
                raise
            else:
                return

    def _write(
        self,
        connected: Connected,
        work: BatchTransaction,
        frame: DataFrame,
        batch_id: int,
        consumed: Offsets | None,
    ) -> None:
        output = self._output(frame, batch_id)
        destination = destination_of(
            self._settings, list(output) if isinstance(output, Mapping) else None
        )
        rows = one_frame(output, destination.topic)
        turns = TurnService()
        address = connected.run(turns.open(driver_address(frame.sparkSession, self._driver_port)))
        try:
            producer = connected.run(work.writer.begin())
            writing = Writing(self._settings, destination, work.transactional_id, producer, address)
            stage = self._stage(writing)
            results = rows.mapInArrow(stage, WRITTEN).collect()
        finally:
            connected.run(turns.close())
        written = _by_attempt(results)
        turns.check(written)
        amount = Written(sum(row.recordCount for row in results), sum(row.size for row in results))
        partitions = {partition for counts in written.values() for partition in counts}
        connected.run(work.writer.add_partitions(partitions))
        connected.run(work.finish(consumed, written=amount))

    def _output(self, frame: DataFrame, batch_id: int) -> DataFrame | Mapping[str, DataFrame]:
        if self._transform is None:
            return frame
        output = self._transform(frame, batch_id)
        if not isinstance(output, DataFrame | Mapping):
            raise ConfigError(
                f"the function given to exactly_once returned {type(output).__name__}: it has to "
                f"return the data frame that is to be written, or several by topic"
            )
        return output

    def _stage(self, writing: Writing) -> Stage:
        return writing.__call__


def _is_final(error: Exception) -> bool:
    """Whether it would be the same again."""
    text = str(error)
    return (
        isinstance(error, AnalysisException)
        or _TOLD_BY_TASK.search(text) is not None
        or _LACKING.search(text) is not None
    )


def _by_attempt(results: Sequence[Row]) -> dict[Attempt, dict[TopicPartition, int]]:
    written: dict[Attempt, dict[TopicPartition, int]] = defaultdict(dict)
    for topic, partition, count, _, *attempt in results:
        written[Attempt(*attempt)][TopicPartition(topic, partition)] = count
    return written


def one_frame(output: DataFrame | Mapping[str, DataFrame], topic: str | None) -> DataFrame:
    """The rows of all topics in one, and of their columns only those that are written."""
    if isinstance(output, Mapping):
        if not output:
            raise ConfigError("nothing is to be written: the function gave no topics")
        return reduce(DataFrame.unionAll, (_of_topic(*each) for each in output.items()))
    check_columns(output.schema, topic)
    wanted = [name for name in WRITTEN_COLUMNS if name in output.columns]
    if topic is not None and "topic" in wanted:
        wanted.remove("topic")
    return output.select(*wanted)


def _of_topic(topic: str, frame: DataFrame) -> DataFrame:
    check_columns(frame.schema, topic)
    columns = [_column(frame, name).cast(kind).alias(name) for name, kind in _COLUMNS.items()]
    return frame.select(*columns, f.lit(topic).alias("topic"))


def _column(frame: DataFrame, name: str) -> Column:
    if name not in frame.columns:
        return f.lit(None)
    if name == "timestamp" and isinstance(frame.schema[name].dataType, LongType):
        # A cast would take milliseconds for seconds.
        return f.timestamp_millis(name)
    return f.col(name)
