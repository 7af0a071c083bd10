"""`semel.read` and `semel.write`: a topic as an Arrow table, and the reverse."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal, overload

import pyarrow as pa

from semel.client.cluster.blocking import ClientOptions, Connected
from semel.client.cluster.offsets import Isolation
from semel.client.columns.frames import as_table
from semel.client.columns.plan import Place, Range, check_place, plan
from semel.client.columns.ranges import fetch_regions
from semel.client.columns.schema import COLUMNS, schema_of
from semel.client.columns.sending import Sending
from semel.client.connecting.address import chosen_bootstrap_servers
from semel.client.connecting.security_settings import as_security
from semel.client.consuming.settings import parse_isolation
from semel.client.producing.partitioners import parse_key_hash
from semel.client.producing.settings import parse_compression
from semel.client.writing.batch_writer import Delivery
from semel.errors import ConfigError
from semel.security import PLAINTEXT, SecurityLike


@overload
def read(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str] | None = ...,
    start: Place = ...,
    end: Place = ...,
    isolation: str = ...,
    columns: str | Collection[str] = ...,
    partitions: Collection[int] | None = ...,
    stream: Literal[False] = ...,
    timeout_ms: int = ...,
    security: SecurityLike = ...,
) -> pa.Table: ...


@overload
def read(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str] | None = ...,
    start: Place = ...,
    end: Place = ...,
    isolation: str = ...,
    columns: str | Collection[str] = ...,
    partitions: Collection[int] | None = ...,
    stream: Literal[True],
    timeout_ms: int = ...,
    security: SecurityLike = ...,
) -> Iterator[pa.RecordBatch]: ...


def read(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str] | None = None,
    start: Place = "earliest",
    end: Place = "latest",
    isolation: str = "read_committed",
    columns: str | Collection[str] = COLUMNS,
    partitions: Collection[int] | None = None,
    stream: bool = False,
    timeout_ms: int = 30_000,
    security: SecurityLike = PLAINTEXT,
) -> pa.Table | Iterator[pa.RecordBatch]:
    """The records of a topic from `start` up to `end`, partition by partition.

    `start` and `end` are "earliest", "latest", an offset, a datetime, or a mapping from partition
    to offset; the end is not included, and "latest" is the end at the time of the call. Headers
    are read if `columns` names them. With `stream` the batches come one by one. Without servers
    `SEMEL_BOOTSTRAP_SERVERS` names them.
    """
    _check_topic(topic)
    check_place("start", start)
    check_place("end", end)
    names = (columns,) if isinstance(columns, str) else columns
    _check_list("columns", names)
    if partitions is not None:
        _check_list("partitions", partitions)
    schema = schema_of(names)
    batches = _batches(
        _options(bootstrap_servers, timeout_ms, security),
        topic,
        start,
        end,
        parse_isolation(isolation),
        names,
        partitions,
    )
    return batches if stream else pa.Table.from_batches(batches, schema)


def write(
    topic: str,
    data: Any,
    *,
    bootstrap_servers: str | Sequence[str] | None = None,
    compression: str = "none",
    transactional_id: str | None = None,
    partitioner: str = "murmur2",
    timeout_ms: int = 30_000,
    security: SecurityLike = PLAINTEXT,
) -> list[Delivery]:
    """Store the rows of a table: one that Arrow can take over, a dict of columns, a list of dicts.

    The column `value` is needed; `key`, `headers`, `partition` and `timestamp` may be there, and
    what only a log can know (`topic`, `offset`, `timestampType`) is left out. Rows without a
    partition go to that of their key, by the hash that `partitioner` names: "murmur2" as the Java
    client, or "crc32" as librdkafka. Each row is stored once, also when the broker is killed
    meanwhile; with a transactional id all of them are, or none.
    """
    _check_topic(topic)
    table = as_table(data)
    codec, key_hash = parse_compression(compression), parse_key_hash(partitioner)
    options = _options(bootstrap_servers, timeout_ms, security)
    with Connected(options) as connected:
        sending = Sending(connected, topic, codec, transactional_id, key_hash=key_hash)
        return sending.send(table)


def _check_topic(topic: str) -> None:
    if not isinstance(topic, str):
        raise ConfigError(f"topic is {topic!r}: it has to be the name of one topic")


def _check_list(argument: str, given: Collection[object]) -> None:
    if not isinstance(given, Collection) or isinstance(given, str | bytes):
        raise ConfigError(f"{argument} is {given!r}: it has to be a list of {argument}")


def _options(
    bootstrap_servers: str | Sequence[str] | None, timeout_ms: int, security: SecurityLike
) -> ClientOptions:
    servers = chosen_bootstrap_servers(bootstrap_servers)
    return ClientOptions(servers, timeout_ms=timeout_ms, security=as_security(security))


def _batches(
    options: ClientOptions,
    topic: str,
    start: Place,
    end: Place,
    isolation: Isolation,
    columns: Collection[str],
    partitions: Collection[int] | None,
) -> Iterator[pa.RecordBatch]:
    with Connected(options) as connected:
        ranges = connected.run(plan(connected.cluster, topic, start, end, isolation, partitions))
        for each in ranges:
            yield from read_range(
                connected,
                each,
                isolation=isolation,
                columns=columns,
                begins_with_log=start == "earliest",
            )


def read_range(
    connected: Connected,
    wanted: Range,
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    columns: Collection[str] = COLUMNS,
    begins_with_log: bool = False,
) -> Iterator[pa.RecordBatch]:
    """As `fetch_regions`, for code without an event loop; decodes in the caller's thread."""
    regions = fetch_regions(
        connected.cluster,
        *wanted,
        isolation=isolation,
        begins_with_log=begins_with_log,
    )
    for region in connected.iterate(regions):
        decoded = region.decode(columns)
        if decoded.num_rows:
            yield decoded
