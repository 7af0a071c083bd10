"""Who reads on skips nothing and goes nowhere back; what one sends stands in its order."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from semel.types import TopicPartition
from semel.verify.judging.anomalies import (
    INSIDE,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    POLL_SKIP,
    Anomaly,
)
from semel.verify.judging.facts import Facts
from semel.verify.judging.operations import Poll, Send


def check_order(facts: Facts) -> Iterator[Anomaly]:
    yield from _check_polls(facts)
    yield from _check_sends(facts)


def _check_polls(facts: Facts) -> Iterator[Anomaly]:
    """What is there at rest was there when a reader came by: behind it nothing is stored anew."""
    offsets = {
        partition: [record.offset for record in rest.records]
        for partition, rest in facts.at_rest.items()
    }
    last: dict[tuple[str, TopicPartition], tuple[int, Poll]] = {}
    for poll in facts.polls:
        key = (poll.process, poll.partition)
        if poll.has_moved:
            last.pop(key, None)
        for seen in poll.records:
            offset, before = last.get(key, (-1, poll))
            inside = INSIDE if poll.transaction and poll.transaction == before.transaction else ""
            is_first = key not in last
            last[key] = (max(seen.offset, offset), poll)
            if is_first:
                continue
            where = (
                f"{poll.process} read {poll.partition.topic}-{poll.partition.partition} on from "
                f"{offset} with {seen.offset} at {poll.span.ended_s:.3f} s"
            )
            if seen.offset <= offset:
                yield Anomaly(inside + NONMONOTONIC_POLL, where, poll.span.ended_s)
                continue
            known = offsets.get(poll.partition, [])
            skipped = known[bisect_right(known, offset) : bisect_left(known, seen.offset)]
            if skipped:
                what = f"{where}, over {skipped[:5]}"
                yield Anomaly(inside + POLL_SKIP, what, poll.span.ended_s)


def _check_sends(facts: Facts) -> Iterator[Anomaly]:
    streams: dict[tuple[str, TopicPartition], list[tuple[Send, int]]] = {}
    for send in facts.sends:
        offset = facts.visible.get(send.partition, {}).get(send.value)
        if offset is not None:
            streams.setdefault((send.process, send.partition), []).append((send, offset))
    for stream in streams.values():
        for (earlier, first), (later, second) in pairwise(stream):
            if later.span.began_s > earlier.span.began_s and second < first:
                is_inside = earlier.transaction and earlier.transaction == later.transaction
                yield Anomaly(
                    (INSIDE if is_inside else "") + NONMONOTONIC_SEND,
                    f"{later.process} sent {earlier.value} before {later.value}, which stands at "
                    f"{second}, before {first}",
                    later.span.ended_s,
                )
