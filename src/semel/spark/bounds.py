"""Where a query begins and ends, as the options say it: by offset or by time."""

import enum
from typing import NamedTuple

from semel.errors import ConfigError
from semel.spark.offsets import Offsets, from_json
from semel.spark.options import Options
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
        return Bound(timestamp, timestamp_ms=options.number(timestamp, 0))
    if by_timestamp in options:
        return Bound(by_timestamp, timestamps_ms=_numbers(options, by_timestamp))
    text = options.text(by_offset)
    if text is None or text.strip().lower() in _NAMES:
        offset = default if text is None else _NAMES[text.strip().lower()]
        return Bound(by_offset, offset=offset)
    if not text.lstrip().startswith("{"):
        names = "latest" if by_offset == "endingOffsets" else "earliest, latest"
        raise ConfigError(
            f"option {by_offset} is {text!r}: it is {names}, or JSON such as "
            f'{{"topic": {{"0": 23, "1": 42}}}}'
        )
    return Bound(by_offset, offsets=_numbers(options, by_offset))


def _numbers(options: Options, name: str) -> dict[TopicPartition, int]:
    try:
        return from_json(options.json(name))
    except ValueError as error:
        raise ConfigError(f"option {name}: {error}") from None


def _refuse_within(bound: Bound, refused: int, name: str) -> None:
    for partition, offset in (bound.offsets or {}).items():
        if offset == refused:
            raise ConfigError(f"option {bound.option}: {partition} is not {refused} ({name}) here")
