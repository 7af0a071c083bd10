"""What a query has read and written, batch by batch, as Spark's own progress cannot tell it.

Spark gives a source in Python no way to report metrics, nor a name, and a sink no way to report
anything: its progress shows an object's address. But it has the offsets, and the cluster has the
marker.
"""

import json
import logging
from ast import literal_eval
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from semel.client.admin.lag import waiting_since
from semel.client.cluster.blocking import ClientOptions, shared
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import joined_bootstrap_servers, named_bootstrap_servers
from semel.client.connecting.security_settings import security_from
from semel.errors import ConfigError, SemelError
from semel.spark.marker import Written
from semel.spark.offsets import Offsets, from_json
from semel.spark.pipelines import find_markers_of, groups_of
from semel.types import TopicPartition

_log = logging.getLogger(__name__)

_TOPICS_NAMED_MAX = 5


class SourceProgress(NamedTuple):
    """What a batch has read of topics, and what Spark's own Kafka source calls its metrics."""

    description: str
    rows: int
    min_offsets_behind_latest: int
    avg_offsets_behind_latest: float
    max_offsets_behind_latest: int
    behind_s: float
    """The age of the first record that is there and was not read; 0 if there is none."""

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows of {self.description}, {self.max_offsets_behind_latest:,} offsets "
            f"and {self.behind_s:.3g} s behind"
        )


class SinkProgress(NamedTuple):
    """What the sink of that name has written last."""

    group: str
    batch_id: int
    written: Written

    def __str__(self) -> str:
        rows, size, _, took_ms, _, skipped = self.written
        return (
            f"{rows:,} rows written ({size:,} bytes, {took_ms:,} ms, {skipped} batches skipped "
            f"so far)"
        )


class Progress(NamedTuple):
    name: str | None
    query_id: str
    run_id: str
    batch_id: int
    rows_per_s: float
    sources: tuple[SourceProgress, ...]
    """Those that read topics."""
    sinks: tuple[SinkProgress, ...]
    """Those that write exactly once."""

    def __str__(self) -> str:
        name = self.name or self.query_id
        head = f"{name} batch {self.batch_id}: {self.rows_per_s:,.0f} rows/s"
        return "; ".join([head, *map(str, self.sources), *map(str, self.sinks)])


Tell = Callable[[Progress], None]


def report_progress(
    spark: SparkSession,
    tell: Tell | None = None,
    *,
    bootstrap_servers: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> "ProgressListener":
    """Tell of each micro-batch of this session's queries; without `tell` in a line of the log.

    `options` are those by which a source or a sink reaches the cluster, such as
    `kafka.security.protocol`. End it with `spark.streams.removeListener`.
    """
    listener = ProgressListener(_client(bootstrap_servers, options), tell or _tell_log)
    spark.streams.addListener(listener)
    return listener


def last_progress(
    query: StreamingQuery,
    *,
    bootstrap_servers: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Progress | None:
    """Of the last micro-batch that Spark has told of, as `query.lastProgress`; None before the
    first. The cluster and `options` are given as to `report_progress`. What the sink has written
    and how long records wait is asked of the cluster now."""
    connected = shared(_client(bootstrap_servers, options))
    last = query.lastProgress
    if last is None:
        return None
    return connected.run(_progress(connected.cluster, last, {}))


def _client(bootstrap_servers: str | None, options: Mapping[str, Any] | None) -> ClientOptions:
    given = dict(options or {})
    servers = bootstrap_servers or given.get("kafka.bootstrap.servers") or named_bootstrap_servers()
    if not servers:
        raise ConfigError("bootstrap_servers is missing: name a broker, host:port")
    return ClientOptions(
        joined_bootstrap_servers(servers),
        client_id="semel-spark-progress",
        security=security_from(lambda name: given.get(f"kafka.{name}"), "option kafka."),
    )


class ProgressListener(StreamingQueryListener):
    def __init__(self, client: ClientOptions, tell: Tell) -> None:
        self._client = client
        self._tell = tell
        self._groups: dict[str, list[str]] = {}
        """By the id of a query, those that hold its markers."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name.
        """Nothing is read or written yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        connected = shared(self._client)
        try:
            progress = connected.run(_progress(connected.cluster, event.progress, self._groups))
        except SemelError as error:
            # What a query does must not depend on who looks at it.
            _log.warning("progress of query %s is not known: %s", event.progress.id, error)
            return
        self._tell(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """There was no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._groups.pop(str(event.id), None)


async def _progress(cluster: Cluster, progress: Any, groups: dict[str, list[str]]) -> Progress:
    """`groups` has those that were found before, by the id of a query."""
    now_ms = _milliseconds(progress.timestamp) + int(progress.batchDuration)
    sources = []
    for source in progress.sources:
        end = _offsets_in(source.endOffset)
        if end:
            latest = _offsets_in(source.latestOffset) or end
            waits = await waiting_since(cluster, end, latest)
            sources.append(_source_progress(int(source.numInputRows), end, latest, waits, now_ms))
    query_id = str(progress.id)
    return Progress(
        progress.name,
        query_id,
        str(progress.runId),
        progress.batchId,
        _number(progress.processedRowsPerSecond),
        tuple(sources),
        await _sinks(cluster, query_id, groups),
    )


async def _sinks(
    cluster: Cluster, query_id: str, groups: dict[str, list[str]]
) -> tuple[SinkProgress, ...]:
    if not groups.get(query_id):
        groups[query_id] = await groups_of(cluster, query_id)
    found = await find_markers_of(cluster, query_id, groups[query_id])
    return tuple(SinkProgress(group, marker.batch_id, marker.written) for group, marker in found)


def _source_progress(
    rows: int, end: Offsets, latest: Offsets, waits: Mapping[TopicPartition, int], now_ms: int
) -> SourceProgress:
    behind = [max(0, latest.get(each, offset) - offset) for each, offset in end.items()]
    return SourceProgress(
        description_of(end),
        rows,
        min(behind),
        sum(behind) / len(behind),
        max(behind),
        max((max(0, now_ms - each) for each in waits.values()), default=0) / 1000,
    )


def description_of(offsets: Offsets) -> str:
    """`semel[orders, returns]`, in place of the address that Spark shows."""
    topics = sorted({each.topic for each in offsets})
    shown = ", ".join(topics[:_TOPICS_NAMED_MAX])
    more = len(topics) - _TOPICS_NAMED_MAX
    return f"semel[{shown}{f' and {more} more' if more > 0 else ''}]"


def _offsets_in(text: str | None) -> dict[TopicPartition, int]:
    """None of a source that reads something else."""
    try:
        return from_json(_read(text or "{}"))
    except ValueError:
        return {}


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # What older PySpark has taken out of JSON it hands on as Python writes it.
        try:
            return literal_eval(text)
        except SyntaxError as error:
            raise ValueError(str(error)) from error


def _number(value: Any) -> float:
    """Spark says that it is none where no time has passed."""
    number = float(value)
    return number if number == number and abs(number) != float("inf") else 0.0  # noqa: PLR0124


def _milliseconds(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp() * 1000)


def _tell_log(progress: Progress) -> None:
    _log.info("%s", progress)
