"""What readers may see: only what stays, in order, and never less than before.

What is compared is what was answered before another request was sent: answers that overlap in
time may be given in either order.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from semel.types import TopicPartition
from semel.verify.history import (
    Acknowledged,
    EndSeen,
    Fetched,
    FetchRefused,
    History,
    Span,
    Stored,
    WholeLog,
)

ACKS_ALL = -1


class Rising:
    """The largest value that was known before a given time."""

    def __init__(self, known: list[tuple[float, int]]) -> None:
        known.sort()
        self._times_s: list[float] = []
        self._values: list[int] = []
        for time_s, value in known:
            self._times_s.append(time_s)
            self._values.append(max(value, self._values[-1] if self._values else value))

    def before(self, time_s: float) -> int | None:
        place = bisect_left(self._times_s, time_s)
        return self._values[place - 1] if place else None


def check_readers(history: History) -> Iterator[str]:
    yield from _check_records(history)
    yield from _check_ends(history)
    for refused in history.all(FetchRefused):
        yield (
            f"{refused.reader} was refused offset {refused.offset} of {refused.partition} "
            f"with {refused.code}"
        )


def _check_records(history: History) -> Iterator[str]:
    """What anyone was ever shown is there at the end, unchanged."""
    logs = {whole.partition: whole.records for whole in history.all(WholeLog) if whole.round == 0}
    for fetched in history.all(Fetched):
        yield from _check_order(fetched)
        if fetched.partition not in logs:
            continue
        log = logs[fetched.partition]
        for stored in fetched.records:
            at_end = log[stored.offset] if stored.offset < len(log) else None
            if at_end != stored:
                yield (
                    f"{fetched.reader} was shown {_named(stored)} of {fetched.partition} at "
                    f"{fetched.span.ended_s:.3f} s, which is {_named(at_end)} at the end"
                )
                break


def _named(stored: Stored | None) -> str:
    if stored is None:
        return "gone"
    return f"{stored.label} (offset {stored.offset}, term {stored.leader_epoch})"


def _check_order(fetched: Fetched) -> Iterator[str]:
    offsets = [stored.offset for stored in fetched.records]
    if offsets and offsets[0] != fetched.from_offset:
        yield f"a fetch of {fetched.partition} from {fetched.from_offset} began at {offsets[0]}"
    if any(later != earlier + 1 for earlier, later in pairwise(offsets)):
        yield f"a fetch of {fetched.partition} from {fetched.from_offset} has gaps"
    if offsets and offsets[-1] >= fetched.high_watermark:
        yield (
            f"a fetch of {fetched.partition} shows offset {offsets[-1]}, which is not below the "
            f"high watermark {fetched.high_watermark}"
        )


def _check_ends(history: History) -> Iterator[str]:
    """An end that was told, or an acknowledged record, is in every answer asked for later."""
    ends: dict[TopicPartition, list[tuple[Span, int]]] = defaultdict(list)
    for fetched in history.all(Fetched):
        ends[fetched.partition].append((fetched.span, fetched.high_watermark))
    for seen in history.all(EndSeen):
        ends[seen.partition].append((seen.span, seen.end_offset))
    known: dict[TopicPartition, list[tuple[float, int]]] = defaultdict(list)
    for partition, told in ends.items():
        known[partition] += [(span.ended_s, end) for span, end in told]
    for acknowledged in history.all(Acknowledged):
        if acknowledged.acks == ACKS_ALL:
            end = acknowledged.base_offset + len(acknowledged.labels)
            known[acknowledged.partition].append((acknowledged.span.ended_s, end))
    for partition, told in ends.items():
        rising = Rising(known[partition])
        for span, end in told:
            least = rising.before(span.began_s)
            if least is not None and end < least:
                yield (
                    f"{partition} was said to end at {end} at {span.ended_s:.3f} s, though "
                    f"{least} was known before"
                )
