"""Places in a partition as users name them: its start or end, an offset, a moment.

start | end                 also beginning, earliest, oldest; latest, newest
42                          this offset
+10 | -10                   ten offsets behind the start; ten before the end
@1700000000000              the first record at or after this moment: milliseconds or seconds
@2024-05-01T12:00:00        since 1970, a date with or without a time (UTC if it names no
@-1h                        zone), or an age in s, m, h, d
FROM:TO | :TO               a range; TO is not read any more
"""

import enum
import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from semel.cli.times import parse_duration_ms
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import beginnings_of, ends_of, offsets_at_or_end
from semel.errors import ConfigError, OffsetOutOfRange
from semel.types import TopicPartition

_STARTS = frozenset({"start", "beginning", "earliest", "oldest"})
_ENDS = frozenset({"end", "latest", "newest"})
_SECONDS_DIGITS_MAX = 11  # With more digits a number of seconds would lie beyond the year 5000.


class PlaceKind(enum.Enum):
    START = "start"
    END = "end"
    OFFSET = "offset"
    MOMENT = "moment"


class Place(NamedTuple):
    kind: PlaceKind
    number: int = 0
    """Offsets behind the start or, if negative, before the end; the offset; milliseconds."""


START = Place(PlaceKind.START)
END = Place(PlaceKind.END)


def parse_place(text: str, now_ms: int) -> Place:
    place = _parse(text, now_ms)
    if place is None:
        raise ConfigError(
            f"{text!r} is not a place: give start, end, an offset, +N, -N or @TIME{_times(text)}"
        )
    _check_times(text, place)
    return place


def parse_range(text: str, now_ms: int) -> tuple[Place, Place | None]:
    """Where to begin, and where to stop if that is said too."""
    place = _parse(text, now_ms)
    if place is not None:
        _check_times(text, place)
        return place, None
    # Times have colons too, so the one that parts the range is found by trying.
    for colon in (match.start() for match in re.finditer(":", text)):
        left, right = text[:colon], text[colon + 1 :]
        if left.startswith("@") and not right.startswith("@") and right not in _ENDS:
            right = f"@{right}"
        begin, stop = _parse(left, now_ms) if left else START, _parse(right, now_ms)
        if begin is not None and stop is not None:
            _check_times(text, begin, stop)
            if begin.kind == stop.kind and begin.number > stop.number:
                raise ConfigError(f"{text!r} ends before it begins")
            return begin, stop
    raise ConfigError(
        f"{text!r} is not a place or a range: give start, end, N, +N, -N, @TIME or A:B"
        f"{_times(text)}"
    )


def _check_times(text: str, *places: Place) -> None:
    # A broker takes negative times for other questions, or for none.
    if any(place.kind == PlaceKind.MOMENT and place.number < 0 for place in places):
        raise ConfigError(f"{text!r}: this time is before 1970")


def _times(text: str) -> str:
    """What to write behind the @, said to who has tried."""
    return ", as @2024-05-01T12:00, @-1h or @1700000000000" if "@" in text else ""


async def offsets_of(
    cluster: Cluster, place: Place, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offset of this place in each partition, within what the partition holds."""
    if place.kind == PlaceKind.MOMENT:
        return await offsets_at_or_end(cluster, partitions, place.number)
    starts = await beginnings_of(cluster, partitions)
    ends = await ends_of(cluster, partitions)
    origins = {
        PlaceKind.START: starts,
        PlaceKind.END: ends,
        PlaceKind.OFFSET: dict.fromkeys(partitions, 0),
    }[place.kind]
    return {
        partition: min(max(origins[partition] + place.number, starts[partition]), ends[partition])
        for partition in partitions
    }


async def check_is_not_behind_end(
    cluster: Cluster, place: Place, partitions: Collection[TopicPartition], done: str
) -> None:
    """Of an offset; what is not `done` to any partition if one of them ends before it."""
    if place.kind != PlaceKind.OFFSET:
        return
    ends = await ends_of(cluster, partitions)
    short = [f"{each} ends at {ends[each]}" for each in partitions if ends[each] < place.number]
    _check_none(short, f"offset {place.number} is not there yet", done)


async def check_is_not_before_start(
    cluster: Cluster, place: Place, partitions: Collection[TopicPartition], done: str
) -> None:
    if place.kind != PlaceKind.OFFSET:
        return
    starts = await beginnings_of(cluster, partitions)
    late = [
        f"{each} begins at {starts[each]}" for each in partitions if starts[each] > place.number
    ]
    _check_none(late, f"offset {place.number} is not there any more", done)


def _check_none(found: Iterable[str], sentence: str, done: str) -> None:
    if told := ", ".join(found):
        raise OffsetOutOfRange(f"{sentence}: {told}; nothing was {done}")


def _parse(text: str, now_ms: int) -> Place | None:
    if text in _STARTS:
        return START
    if text in _ENDS:
        return END
    if text.startswith("@"):
        moment_ms = _parse_moment(text[1:], now_ms)
        return None if moment_ms is None else Place(PlaceKind.MOMENT, moment_ms)
    if not re.fullmatch(r"[+-]?\d+", text):
        return None
    kind = {"+": PlaceKind.START, "-": PlaceKind.END}.get(text[0], PlaceKind.OFFSET)
    return Place(kind, int(text))


def _parse_moment(text: str, now_ms: int) -> int | None:
    if text.isdecimal():
        return int(text) * (1000 if len(text) <= _SECONDS_DIGITS_MAX else 1)
    if text.startswith("-") and (age_ms := parse_duration_ms(text[1:])) is not None:
        return now_ms - age_ms
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
