"""What is told is true when it is told: no answer is older than what was known before it was asked.

A leader that is one no more, and does not know it, is what breaks this.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from semel.types import TopicPartition
from semel.verify.judging.anomalies import (
    FALLING_EPOCH,
    FALLING_STABLE_OFFSET,
    STALE_END,
    STALE_OFFSET,
    Anomaly,
)
from semel.verify.judging.facts import Facts, Rising
from semel.verify.judging.operations import (
    Commit,
    EndRead,
    EpochRead,
    Inputs,
    Known,
    OffsetRead,
    Times,
)


class Told(NamedTuple):
    span: Times
    value: int
    node: str


def check_answers(facts: Facts) -> Iterator[Anomaly]:
    yield from _check_offsets(facts)
    yield from _check_ends(facts)
    epochs: dict[TopicPartition, list[Told]] = defaultdict(list)
    for read in facts.all(EpochRead):
        epochs[read.partition].append(Told(read.span, read.leader_epoch, read.node))
    for partition, told in epochs.items():
        yield from _check_rising(FALLING_EPOCH, f"the leader epoch of {_named(partition)}", told)


def _check_offsets(facts: Facts) -> Iterator[Anomaly]:
    """Of groups whose offsets only rise."""
    read: dict[tuple[str, TopicPartition], list[Told]] = defaultdict(list)
    for each in facts.all(OffsetRead):
        read[each.group, each.partition].append(Told(each.span, each.offset, each.node))
    known: dict[tuple[str, TopicPartition], list[tuple[float, int]]] = defaultdict(list)
    for commit in facts.all(Commit):
        if commit.known is Known.OK:
            known[commit.group, commit.partition].append((commit.span.ended_s, commit.offset))
    for inputs in facts.all(Inputs):
        if facts.is_committed(inputs.transaction):
            ended_s = facts.ends[inputs.transaction].span.ended_s
            known[inputs.group, inputs.partition].append((ended_s, inputs.offset))
    for (group, partition), told in read.items():
        what = f"the offset of {group} for {_named(partition)}"
        yield from _check_rising(STALE_OFFSET, what, told, known[group, partition])


def _check_ends(facts: Facts) -> Iterator[Anomaly]:
    known: dict[TopicPartition, list[tuple[float, int]]] = defaultdict(list)
    for send in facts.sends:
        if send.offset is None or not facts.is_acknowledged(send):
            continue
        ended_s, end = send.span.ended_s, send.offset + 1
        if send.transaction is not None:
            # What it was told before it was committed may have been lost with a leader, and it
            # with it.
            ended_s = facts.ends[send.transaction].span.ended_s
        known[send.partition].append((ended_s, end))
    for poll in facts.polls:
        if poll.records:
            known[poll.partition].append((poll.span.ended_s, poll.records[-1].offset + 1))
    plain: dict[TopicPartition, list[Told]] = defaultdict(list)
    stable: dict[TopicPartition, list[Told]] = defaultdict(list)
    for read in facts.all(EndRead):
        ends = stable if read.is_stable else plain
        ends[read.partition].append(Told(read.span, read.offset, read.node))
    for partition, told in plain.items():
        what = f"the end of {_named(partition)}"
        yield from _check_rising(STALE_END, what, told, known[partition])
    for partition, told in stable.items():
        what = f"the last stable offset of {_named(partition)}"
        yield from _check_rising(FALLING_STABLE_OFFSET, what, told)


def _check_rising(
    name: str, what: str, told: list[Told], known: Iterable[tuple[float, int]] = ()
) -> Iterator[Anomaly]:
    rising = Rising([*known, *((each.span.ended_s, each.value) for each in told)])
    for each in told:
        least = rising.before(each.span.began_s)
        if least is not None and each.value < least:
            by = f" by node {each.node}" if each.node else ""
            yield Anomaly(
                name,
                f"{what} was {least} before {each.span.began_s:.3f} s, and was said to be "
                f"{each.value}{by} at {each.span.ended_s:.3f} s",
                each.span.ended_s,
            )


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
