"""Where a query begins and ends: by offset or by time as the options say it, and what that means.

A bound becomes offsets by what the partitions hold at this moment.
"""

import enum
from collections.abc import Collection
from typing import NamedTuple

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, beginnings_of, ends_of, offsets_at
from semel.errors import ConfigError
from semel.spark.offsets import OFFSETS_EXAMPLE, Offsets, from_json
from semel.spark.options import Options
from semel.spelling import noun
from semel.types import TopicPartition

LATEST = -1
EARLIEST = -2

_NAMES = {"latest": LATEST, "earliest": EARLIEST}


class Missing(enum.Enum):
    """What to do where nothing is as young as a timestamp."""

    REFUSE = "error"
    TAKE_LATEST = "latest"


class Bound(NamedTuple):
    """One of the fields is set: it says where every partition, or each of them, is cut."""

    option: str
    offset: int | None = None
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None
    missing: Missing = Missing.TAKE_LATEST

    @property
    def named(self) -> Offsets | None:
        """What is said partition by partition."""
        return self.offsets if self.offsets is not None else self.timestamps_ms


def check_bounds(options: Options) -> None:
    """Whether they can be read, of a batch or a stream; what either refuses comes later."""
    _start(options, LATEST)
    _end(options)


def stream_start(options: Options) -> Bound:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name in options:
            raise ConfigError(f"option {name} is for batch queries: a stream has no end")
    return _start(options, LATEST)


def batch_start(options: Options) -> Bound:
    start = _start(options, EARLIEST)
    if start.offset == LATEST:
        raise ConfigError(
            "option startingOffsets of a batch query is not 'latest': nothing follows"
        )
    _refuse_within(start, LATEST, "latest")
    return start


def batch_end(options: Options) -> Bound:
    end = _end(options)
    if end.offset == EARLIEST:
        raise ConfigError("option endingOffsets is not 'earliest': nothing comes before it")
    _refuse_within(end, EARLIEST, "earliest")
    return end


def _end(options: Options) -> Bound:
    return _bound(options, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", LATEST)


def _start(options: Options, default: int) -> Bound:
    strategy = options.choice(
        "startingOffsetsByTimestampStrategy", "error", [each.value for each in Missing]
    )
    bound = _bound(
        options, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", default
    )
    return bound._replace(missing=Missing(strategy))


def _bound(
    options: Options, timestamp: str, by_timestamp: str, by_offset: str, default: int
) -> Bound:
    """The first of the three that is given decides, as in Spark's Kafka source."""
    if timestamp in options:
        return Bound(timestamp, timestamp_ms=options.timestamp_ms(timestamp))
    if by_timestamp in options:
        return Bound(by_timestamp, timestamps_ms=_numbers(options, by_timestamp))
    text = options.text(by_offset)
    if text is None or text.strip().lower() in _NAMES:
        offset = default if text is None else _NAMES[text.strip().lower()]
        return Bound(by_offset, offset=offset)
    if not text.lstrip().startswith("{"):
        names = "latest" if by_offset == "endingOffsets" else "earliest, latest"
        raise ConfigError(
            f"option {by_offset} is {text!r}: it is {names}, or JSON such as {OFFSETS_EXAMPLE}"
        )
    return Bound(by_offset, offsets=_numbers(options, by_offset))


def _numbers(options: Options, name: str) -> dict[TopicPartition, int]:
    try:
        numbers = from_json(options.json(name, OFFSETS_EXAMPLE))
    except ValueError as error:
        raise ConfigError(f"option {name} is {options.text(name)!r}: {error}") from None
    for partition, number in numbers.items():
        if number < EARLIEST:
            raise ConfigError(
                f"option {name}: {partition} is {number}; below 0 there are "
                f"{LATEST} for latest and {EARLIEST} for earliest"
            )
    return numbers


def _refuse_within(bound: Bound, refused: int, name: str) -> None:
    for partition, offset in (bound.offsets or {}).items():
        if offset == refused:
            raise ConfigError(f"option {bound.option}: {partition} is not {refused} ({name}) here")


async def offsets_of(
    cluster: Cluster,
    bound: Bound,
    partitions: Collection[TopicPartition],
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    """Where this bound cuts each partition."""
    if bound.timestamp_ms is not None:
        timestamps_ms = dict.fromkeys(partitions, bound.timestamp_ms)
        return await _at_timestamps(cluster, bound, timestamps_ms, isolation)
    if bound.offset is not None:
        return await _resolved(cluster, dict.fromkeys(partitions, bound.offset), isolation)
    assert bound.named is not None
    if set(bound.named) != set(partitions):
        raise ConfigError(_unlike(bound, partitions))
    if bound.timestamps_ms is not None:
        return await _at_timestamps(cluster, bound, dict(bound.timestamps_ms), isolation)
    return await _resolved(cluster, dict(bound.named), isolation)


async def _resolved(
    cluster: Cluster, offsets: dict[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    earliest = [partition for partition, offset in offsets.items() if offset == EARLIEST]
    latest = [partition for partition, offset in offsets.items() if offset == LATEST]
    return (
        offsets | await beginnings_of(cluster, earliest) | await ends_of(cluster, latest, isolation)
    )


async def _at_timestamps(
    cluster: Cluster,
    bound: Bound,
    timestamps_ms: dict[TopicPartition, int],
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    # ListOffsets takes these two for the ends of a partition, and so do Spark's users.
    found = await offsets_at(cluster, timestamps_ms, isolation)
    missing = [partition for partition, offset in found.items() if offset < 0]
    if missing and bound.missing is Missing.REFUSE:
        first = missing[0]
        raise ConfigError(
            f"option {bound.option}: {first} has no record at or after {timestamps_ms[first]} ms; "
            f"set startingOffsetsByTimestampStrategy to latest to begin at its end"
        )
    return found | await ends_of(cluster, missing, isolation)


def _unlike(bound: Bound, partitions: Collection[TopicPartition]) -> str:
    named = set(bound.named or {})
    absent, strange = sorted(set(partitions) - named), sorted(named - set(partitions))
    reasons = [
        f"{', '.join(map(str, names))} {noun(len(names), 'is', 'are')} {reason}"
        for names, reason in (
            (absent, "missing (-2 means earliest, -1 latest)"),
            (strange, "not read by this query"),
        )
        if names
    ]
    return f"option {bound.option}: {'; '.join(reasons)}"
