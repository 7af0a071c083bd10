"""Each record that was acknowledged is there, once, for everybody; none is that was not to be."""

from collections import defaultdict
from collections.abc import Iterator

from semel.types import TopicPartition
from semel.verify.judging.anomalies import (
    ABORTED_READ,
    DUPLICATE,
    INCONSISTENT_OFFSETS,
    LOST_WRITE,
    STUCK_STABLE_OFFSET,
    UNSEEN,
    ZOMBIE_WRITE,
    Anomaly,
)
from semel.verify.judging.facts import Facts
from semel.verify.judging.operations import Init, Known, Seen


def check_records(facts: Facts) -> Iterator[Anomaly]:
    yield from _check_offsets(facts)
    yield from _check_acknowledged(facts)
    yield from _check_failed(facts)
    yield from _check_fenced(facts)
    for rest in facts.at_rest.values():
        if rest.stable_offset < rest.end_offset:
            yield Anomaly(
                STUCK_STABLE_OFFSET,
                f"{_named(rest.partition)} is stable up to {rest.stable_offset} of "
                f"{rest.end_offset}",
            )


def _check_offsets(facts: Facts) -> Iterator[Anomaly]:
    value_at: dict[tuple[TopicPartition, int], str] = {}
    offset_of: dict[str, tuple[TopicPartition, int]] = {}

    def judge(
        who: str, at_s: float, partition: TopicPartition, seen: Seen, *, is_committed: bool = True
    ) -> Iterator[Anomaly]:
        place = (partition, seen.offset)
        known = value_at.setdefault(place, seen.value)
        if known != seen.value:
            what = f"offset {seen.offset} of {_named(partition)} is {known}, and {seen.value} for "
            yield Anomaly(INCONSISTENT_OFFSETS, what + who, at_s)
        first = offset_of.setdefault(seen.value, place) if is_committed else place
        if first != place:
            what = (
                f"{seen.value} stands at {first[1]} of {_named(first[0])} and, for {who}, at "
                f"{seen.offset} of {_named(partition)}"
            )
            yield Anomaly(DUPLICATE, what, at_s)

    for send in facts.sends:
        # What a transaction was told while it was open is gone if it was aborted by a new leader.
        if facts.is_acknowledged(send) and send.offset is not None:
            told = Seen(send.offset, send.value)
            yield from judge(send.process, send.span.ended_s, send.partition, told)
    for poll in facts.polls:
        for seen in poll.records:
            yield from judge(
                poll.process,
                poll.span.ended_s,
                poll.partition,
                seen,
                is_committed=poll.is_committed,
            )
    for rest in facts.at_rest.values():
        for seen in rest.records:
            yield from judge("those who come now", float("inf"), rest.partition, seen)


def _check_acknowledged(facts: Facts) -> Iterator[Anomaly]:
    read: dict[TopicPartition, set[str]] = defaultdict(set)
    highest: dict[TopicPartition, int] = defaultdict(lambda: -1)
    shown = [(poll.partition, poll.records) for poll in facts.polls]
    for partition, records in shown:
        read[partition].update(seen.value for seen in records)
    shown += [(partition, rest.records) for partition, rest in facts.at_rest.items()]
    for partition, records in shown:
        highest[partition] = max([highest[partition], *(seen.offset for seen in records)])
    for send in facts.sends:
        rest = facts.at_rest.get(send.partition)
        if rest is None or not facts.is_acknowledged(send):
            continue
        if send.value in facts.visible[send.partition]:
            continue
        if send.offset is not None and send.offset < rest.start_offset:
            continue
        is_before = send.offset is None or send.offset < highest[send.partition]
        name = LOST_WRITE if is_before else UNSEEN
        polled = "" if send.value in read[send.partition] else ", and nobody has read it"
        yield Anomaly(
            name,
            f"{send.value} of {send.process} was acknowledged at {send.span.ended_s:.3f} s with "
            f"offset {send.offset} of {_named(send.partition)}, and is not there at rest{polled}",
            send.span.ended_s,
        )


def _check_failed(facts: Facts) -> Iterator[Anomaly]:
    told: set[tuple[str, str]] = set()
    committed = [
        (poll.process, poll.span.ended_s, seen)
        for poll in facts.polls
        if poll.is_committed
        for seen in poll.records
    ]
    committed += [
        ("who came at rest", float("inf"), seen)
        for rest in facts.at_rest.values()
        for seen in rest.records
    ]
    for who, at_s, seen in committed:
        send = facts.send_of.get(seen.value)
        if send is not None and facts.has_failed(send) and (who, seen.value) not in told:
            told.add((who, seen.value))
            of = send.transaction or send.process
            yield Anomaly(ABORTED_READ, f"{who} read {seen.value} of {of}, which has failed", at_s)


def _check_fenced(facts: Facts) -> Iterator[Anomaly]:
    """By a process of the same id that was there before the record was sent."""
    owners: dict[str, list[Init]] = defaultdict(list)
    id_of: dict[str, str] = {}
    for init in sorted(facts.all(Init), key=lambda each: each.span):
        owners[init.transactional_id].append(init)
        id_of.setdefault(init.process, init.transactional_id)
    for send in facts.sends:
        own_id = id_of.get(send.process)
        if own_id is None or send.known is Known.FAILED:
            continue
        own_s = max(each.span.ended_s for each in owners[own_id] if each.process == send.process)
        fences = [
            each
            for each in owners[own_id]
            if each.process != send.process
            and each.span.began_s > own_s
            and each.span.ended_s < send.span.began_s
        ]
        if fences and send.value in facts.visible.get(send.partition, ()):
            yield Anomaly(
                ZOMBIE_WRITE,
                f"{send.value} was sent by {send.process} at {send.span.began_s:.3f} s, after "
                f"{fences[0].process} had taken {own_id} at {fences[0].span.ended_s:.3f} s",
                send.span.began_s,
            )


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
