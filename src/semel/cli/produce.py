"""`semel produce`: one record per line of standard input or of files."""

import sys
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from semel.cli.lines import lines_of, lines_of_files
from semel.cli.output import say, say_json
from semel.cli.pairs import parse_pairs
from semel.cli.target import DEFAULT_TARGET, Target
from semel.client.cluster import Cluster
from semel.client.producer import ACKS_ALL, ACKS_NONE, Delivery, Producer
from semel.errors import ConfigError
from semel.records.compression import Compression
from semel.records.records import Record, RecordHeader
from semel.world import SystemClock

_ACKS = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1, "0": ACKS_NONE}


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
    header: Annotated[
        tuple[str, ...],
        Parameter(name=["-H", "--header"], help="A header as KEY=VALUE; repeatable.", negative=""),
    ] = (),
    partition: Annotated[
        int | None,
        Parameter(name=["-p", "--partition"], help="Where to; else by key, or each in turn."),
    ] = None,
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
    target: Target = DEFAULT_TARGET,
) -> int:
    """Send one record per line of standard input, or of FILES."""
    if key is not None and key_delimiter is not None:
        raise ConfigError("--key and --key-delimiter exclude each other")
    if acks not in _ACKS:
        raise ConfigError(f"{acks!r} is not a value of --acks: give all, 1 or 0")
    make = _RecordMaker(
        key=None if key is None else key.encode(),
        key_delimiter=None if key_delimiter is None else key_delimiter.encode(),
        headers=tuple((name, value.encode()) for name, value in parse_pairs(header)),
        is_tombstone=tombstone,
    )
    lines = lines_of_files(files) if files else lines_of(sys.stdin.buffer)

    report = _Report(topic, as_json=target.as_json, at_once=not files and sys.stdin.isatty())

    async def work(cluster: Cluster) -> None:
        producer = Producer(
            cluster,
            acks=_ACKS[acks],
            compression=Compression[compression.name],
            is_idempotent=idempotent and _ACKS[acks] == ACKS_ALL,
        )
        async for some in lines:
            report.add(await producer.send(topic, make.records(some), partition))

    target.run(work)
    report.finish()
    return 0


class _RecordMaker:
    def __init__(
        self,
        *,
        key: bytes | None,
        key_delimiter: bytes | None,
        headers: tuple[RecordHeader, ...],
        is_tombstone: bool,
    ) -> None:
        self._key = key
        self._key_delimiter = key_delimiter
        self._headers = headers
        self._is_tombstone = is_tombstone
        self._clock = SystemClock()

    def records(self, lines: list[bytes]) -> list[Record]:
        now_ms = self._clock.now_ms()
        return [self._record(line, now_ms) for line in lines]

    def _record(self, line: bytes, now_ms: int) -> Record:
        key, value = self._key, line
        if self._key_delimiter is not None:
            before, delimiter, after = line.partition(self._key_delimiter)
            if delimiter:
                key, value = before, after
        is_null = self._is_tombstone and not value
        return Record(key, None if is_null else value, now_ms, self._headers)


class _Report:
    """Says where records went: as they go, or in sum when there may be millions."""

    def __init__(self, topic: str, *, as_json: bool, at_once: bool) -> None:
        self._topic = topic
        self._as_json = as_json
        self._at_once = at_once
        self._counts: Counter[int] = Counter()
        self._first_offsets: dict[int, int] = {}

    def add(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            number, offset = delivery.partition.partition, delivery.base_offset
            if self._as_json:
                say_json(
                    {
                        "topic": self._topic,
                        "partition": number,
                        "offset": offset,
                        "count": delivery.record_count,
                    }
                )
            elif self._at_once:
                self._say(number, offset, delivery.record_count)
            else:
                self._counts[number] += delivery.record_count
                self._first_offsets.setdefault(number, offset)

    def finish(self) -> None:
        for number, count in sorted(self._counts.items()):
            self._say(number, self._first_offsets[number], count)

    def _say(self, number: int, offset: int, count: int) -> None:
        noun = "record" if count == 1 else "records"
        place = f"from offset {offset}" if offset >= 0 else "unconfirmed"
        say(f"{count} {noun} to {self._topic} partition {number}, {place}")
