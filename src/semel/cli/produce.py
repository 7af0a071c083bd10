"""`semel produce`: one record per line of standard input or of files."""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from semel.cli.arguments import DEFAULT_TARGET, Target, parse_pairs
from semel.cli.lines import Lines, numbered_lines
from semel.cli.numbers import whole_number
from semel.cli.output import say, say_json
from semel.cli.record_input import NoRecord, PlacedRecord, check_partition, placed_record
from semel.client.admin import topics
from semel.client.admin.finding import with_nearest
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.client.producing.asynchronous import AsyncProducer
from semel.client.producing.partitioners import KeyHash, parse_key_hash
from semel.client.producing.sent import Delivered
from semel.client.producing.settings import ACKS_ALL, parse_acks
from semel.errors import (
    ConfigError,
    SemelError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from semel.records.records import Record, RecordHeader
from semel.spelling import noun
from semel.world import SystemClock

_BATCH_SIZE_MAX = 900_000
_UNKNOWN = -1
"""The offset where no answer was wanted."""
_SHOWN_MAX = 60
"""Bytes of a line that its refusal shows."""


class LineRefused(SemelError):
    """A line that is no record; those before it are sent."""


class InputFormat(Enum):
    LINES = "lines"
    JSON = "json"


class CompressionName(Enum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: str,
    /,
    *files: Path,
    key: Annotated[
        str | None, Parameter(name=["-k", "--key"], help="The key of every record.")
    ] = None,
    key_delimiter: Annotated[
        str | None,
        Parameter(
            name=["-K", "--key-delimiter"],
            help="What stands between key and value in a line.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    allow_missing_key: Annotated[
        bool,
        Parameter(
            negative="",
            help="Send a line without the delimiter as a value without key, and do not refuse it.",
        ),
    ] = False,
    header: Annotated[
        tuple[str, ...],
        Parameter(name=["-H", "--header"], help="A header as KEY=VALUE; repeatable.", negative=""),
    ] = (),
    partition: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            name=["-p", "--partition"],
            help="Where to; else by key, or each in turn.",
        ),
    ] = None,
    partitioner: Annotated[
        str,
        Parameter(help="The hash of keys: murmur2 as the Java client, or crc32 as librdkafka."),
    ] = "murmur2",
    compression: Annotated[
        CompressionName, Parameter(name=["-z", "--compression"])
    ] = CompressionName.NONE,
    acks: Annotated[
        str, Parameter(help="Who must have a record: all, 1 or 0.", allow_leading_hyphen=True)
    ] = "all",
    tombstone: Annotated[
        bool,
        Parameter(name=["-Z", "--tombstone"], negative="", help="An empty value becomes null."),
    ] = False,
    idempotent: Annotated[
        bool, Parameter(negative="--no-idempotence", help="Store a retried batch once.")
    ] = True,
    input_format: Annotated[
        InputFormat,
        Parameter(
            name=["-f", "--input"],
            help="json: each line is an object as `semel consume --json` prints it.",
        ),
    ] = InputFormat.LINES,
    create: Annotated[
        bool, Parameter(negative="", help="Create the topic if there is none of this name.")
    ] = False,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Send one record per line of standard input, or of FILES.

    With --input json a line has key, value and headers, as text or in base64 (`value_base64`), and
    perhaps a timestamp and a partition; a value that is no text is sent as JSON. What
    `semel consume --json` has printed can be sent again: partitions go by key then.
    """
    is_told_twice = (key_delimiter, key, tombstone, header) != (None, None, False, ())
    if input_format is InputFormat.JSON and is_told_twice:
        raise ConfigError(
            "--input json has key, value and headers in each line: leave out --key,"
            " --key-delimiter, --header and --tombstone"
        )
    if key is not None and key_delimiter is not None:
        raise ConfigError("--key and --key-delimiter exclude each other")
    if key_delimiter == "":
        raise ConfigError("--key-delimiter is empty: nothing would end the key")
    if allow_missing_key and key_delimiter is None:
        raise ConfigError("--allow-missing-key is for lines with keys: give --key-delimiter")
    needed_acks = parse_acks(acks)
    key_hash = parse_key_hash(partitioner)
    make = _RecordMaker(
        parse=placed_record if input_format is InputFormat.JSON else None,
        key=None if key is None else key.encode(),
        key_delimiter=None if key_delimiter is None else key_delimiter.encode(),
        may_lack_key=allow_missing_key,
        headers=tuple((name, value.encode()) for name, value in parse_pairs(header)),
        is_tombstone=tombstone,
    )
    report = _Report(topic, as_json=target.as_json, at_once=not files and sys.stdin.isatty())

    async def work(cluster: Cluster) -> None:
        await (_create if create else _find)(cluster, topic)
        async with AsyncProducer(
            target.connection.bootstrap_servers,
            acks=needed_acks,
            compression=compression.value,
            enable_idempotence=idempotent and needed_acks == ACKS_ALL,
            partitioner=_ByKeyOrInTurn(key_hash),
            batch_size_max=_BATCH_SIZE_MAX,
            delivery_timeout_ms=target.timeout_ms,
            block_timeout_ms=target.timeout_ms,
            security=target.connection.security,
            client_id=target.connection.client_id,
        ) as producer:
            async for some in numbered_lines(files, sys.stdin.buffer):
                # That it is gone is said sooner than a producer loses patience.
                partition_count = len((await _find(cluster, topic)).partitions)
                records, refused = make.records(some, topic, partition_count)
                report.add(await _send(producer, topic, records, partition))
                if refused is not None:
                    raise refused

    try:
        target.run(work)
    finally:
        report.finish()
    return 0


async def _find(cluster: Cluster, topic: str) -> TopicMetadata:
    """Refuse a topic that is not there: a cluster that creates on demand would do so for a typo."""
    try:
        return await cluster.topic_to_write(topic, may_create=False)
    except UnknownTopicOrPartition as error:
        refused = await with_nearest(cluster, [topic], error)
        gap = " " if str(refused).endswith("?") else "; "
        raise UnknownTopicOrPartition(f"{refused}{gap}--create creates it") from None


async def _create(cluster: Cluster, topic: str) -> None:
    if topic not in (await cluster.describe([topic])).topics:
        refused = (await topics.create(cluster, [topic]))[topic]
        if refused is not None and not isinstance(refused, TopicAlreadyExists):
            raise refused
        await cluster.topic_to_write(topic)


async def _send(
    producer: AsyncProducer, topic: str, records: list[PlacedRecord], partition: int | None
) -> list[Delivered]:
    sent = [
        await producer.send(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
            partition=own if partition is None else partition,
        )
        for record, own in records
    ]
    await producer.flush()
    return [each.outcome() for each in sent]


class _ByKeyOrInTurn:
    """Records without a key go to each partition in turn, so that a few lines show all of them."""

    def __init__(self, key_hash: KeyHash) -> None:
        self._key_hash = key_hash
        self._next = 0

    def __call__(self, topic: str, key: bytes | None, partition_count: int) -> int:
        if key is not None and self._key_hash.counts(key):
            return self._key_hash.partition_of(key, partition_count)
        self._next += 1
        return (self._next - 1) % partition_count


class _RecordMaker:
    def __init__(
        self,
        *,
        parse: Callable[[bytes, int], PlacedRecord] | None,
        key: bytes | None,
        key_delimiter: bytes | None,
        may_lack_key: bool,
        headers: tuple[RecordHeader, ...],
        is_tombstone: bool,
    ) -> None:
        self._parse = parse
        self._key = key
        self._key_delimiter = key_delimiter
        self._may_lack_key = may_lack_key
        self._headers = headers
        self._is_tombstone = is_tombstone
        self._clock = SystemClock()

    def records(
        self, some: Lines, topic: str, partition_count: int
    ) -> tuple[list[PlacedRecord], LineRefused | None]:
        """Those up to the first line that is none, and why it is not."""
        now_ms = self._clock.wall_ms()
        records: list[PlacedRecord] = []
        for index, line in enumerate(some.lines):
            if self._parse is not None:
                if not line.strip():
                    continue
                try:
                    placed = self._parse(line, now_ms)
                    check_partition(placed, topic, partition_count)
                    records.append(placed)
                except NoRecord as error:
                    return records, LineRefused(
                        f"{some.place_of(index)} {error}: {_shown(line)}; the lines before it are"
                        " sent"
                    )
                continue
            key, value = self._key, line
            if self._key_delimiter is not None:
                before, delimiter, after = line.partition(self._key_delimiter)
                if delimiter:
                    key, value = before, after
                elif not self._may_lack_key:
                    return records, self._refusal(some.place_of(index), line)
            is_null = self._is_tombstone and not value
            record = Record(key, None if is_null else value, now_ms, self._headers)
            records.append(PlacedRecord(record, None))
        return records, None

    def _refusal(self, place: str, line: bytes) -> LineRefused:
        assert self._key_delimiter is not None, "any line is a value"
        delimiter = self._key_delimiter.decode()
        return LineRefused(
            f"{place} has no {delimiter!r} behind a key: {_shown(line)}; the lines before it are"
            " sent, and --allow-missing-key sends such a line as well, without a key"
        )


def _shown(line: bytes) -> str:
    return repr(line[:_SHOWN_MAX].decode(errors="replace"))


class _Report:
    """Says where records went: as they go, or in sum when there may be millions."""

    def __init__(self, topic: str, *, as_json: bool, at_once: bool) -> None:
        self._topic = topic
        self._as_json = as_json
        self._at_once = at_once
        self._counts: Counter[int] = Counter()
        self._first_offsets: dict[int, int] = {}

    def add(self, delivered: Iterable[Delivered]) -> None:
        for number, offset, count in _runs(delivered):
            if self._as_json:
                say_json(
                    {"topic": self._topic, "partition": number, "offset": offset, "count": count}
                )
            elif self._at_once:
                self._say(number, offset, count)
            else:
                self._counts[number] += count
                self._first_offsets.setdefault(number, offset)

    def finish(self) -> None:
        for number, count in sorted(self._counts.items()):
            self._say(number, self._first_offsets[number], count)

    def _say(self, number: int, offset: int, count: int) -> None:
        place = f"from offset {offset}" if offset >= 0 else "unconfirmed"
        say(f"{count} {noun(count, 'record')} to {self._topic} partition {number}, {place}")


def _runs(delivered: Iterable[Delivered]) -> Iterator[tuple[int, int, int]]:
    """Partition, first offset and count of records that were stored next to each other."""
    by_partition: dict[int, list[int]] = defaultdict(list)
    for each in delivered:
        by_partition[each.partition].append(each.offset)
    for number, offsets in by_partition.items():
        first = 0
        for index in range(1, len(offsets) + 1):
            is_next = index < len(offsets) and offsets[index] in (_UNKNOWN, offsets[index - 1] + 1)
            if not is_next:
                yield number, offsets[first], index - first
                first = index
