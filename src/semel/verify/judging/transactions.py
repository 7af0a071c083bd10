"""A transaction is there whole or not at all, and each input is copied once."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from semel.types import TopicPartition
from semel.verify.judging.anomalies import (
    DOUBLE_INPUT,
    PRECOMMITTED_READ,
    READ_CYCLE,
    TORN_TRANSACTION,
    Anomaly,
)
from semel.verify.judging.facts import Facts
from semel.verify.judging.operations import Inputs, Known, OffsetRead, Send


def check_transactions(facts: Facts) -> Iterator[Anomaly]:
    yield from _check_whole(facts)
    yield from _check_inputs(facts)
    yield from _check_own_reads(facts)
    yield from _check_cycles(facts)


def _check_whole(facts: Facts) -> Iterator[Anomaly]:
    for transaction, sends in facts.sends_of.items():
        judged = [send for send in sends if _is_left(facts, send)]
        there = [send for send in judged if send.value in facts.visible[send.partition]]
        missing = [
            send
            for send in judged
            if send.value not in facts.visible[send.partition] and send.known is not Known.FAILED
        ]
        if there and missing:
            yield Anomaly(
                TORN_TRANSACTION,
                f"of {transaction} {there[0].value} is there and {missing[0].value} is not "
                f"({len(there)} of {len(judged)} records)",
            )


def _is_left(facts: Facts, send: Send) -> bool:
    """Whether it must be seen at rest if any of its transaction is."""
    rest = facts.at_rest.get(send.partition)
    return rest is not None and (send.offset is None or send.offset >= rest.start_offset)


def _check_inputs(facts: Facts) -> Iterator[Anomaly]:
    by_source: dict[tuple[str, TopicPartition], list[Inputs]] = defaultdict(list)
    for inputs in facts.all(Inputs):
        by_source[inputs.group, inputs.partition].append(inputs)
    for (group, partition), attempts in by_source.items():
        reads = [
            read
            for read in facts.all(OffsetRead)
            if (read.group, read.partition) == (group, partition)
        ]
        if not reads or partition not in facts.at_rest:
            continue
        end = max(0, max(reads, key=lambda read: read.span).offset)
        copied = Counter(
            offset
            for inputs in attempts
            if facts.is_visible(inputs.transaction) or facts.is_committed(inputs.transaction)
            for offset in inputs.read
        )
        there = [record.offset for record in facts.at_rest[partition].records]
        never = [offset for offset in there if offset < end and not copied[offset]]
        twice = sorted(offset for offset, count in copied.items() if count > 1)
        beyond = sorted(offset for offset in copied if offset >= end)
        where = f"of {partition.topic}-{partition.partition}, of which {group} has committed {end}"
        if never or twice:
            what = f"{never[:5]} were never copied and {twice[:5]} more than once, {where}"
            yield Anomaly(DOUBLE_INPUT, what)
        if beyond:
            yield Anomaly(TORN_TRANSACTION, f"{beyond[:5]} were copied {where}")


def _check_own_reads(facts: Facts) -> Iterator[Anomaly]:
    for poll in facts.polls:
        for seen in poll.records if poll.transaction else ():
            send = facts.send_of.get(seen.value)
            if send is not None and send.transaction == poll.transaction:
                what = f"{poll.transaction} read {seen.value}, which it has written"
                yield Anomaly(PRECOMMITTED_READ, what, poll.span.ended_s)


def _check_cycles(facts: Facts) -> Iterator[Anomaly]:
    """Edges lead from who wrote to who read, among those that count."""
    readers: dict[str, dict[str, str]] = defaultdict(dict)
    for poll in facts.polls:
        if poll.transaction is None or not poll.is_committed:
            continue
        for seen in poll.records:
            send = facts.send_of.get(seen.value)
            writer = None if send is None else send.transaction
            if writer is not None and writer != poll.transaction:
                readers[writer][poll.transaction] = seen.value
    done: set[str] = set()
    for start in list(readers):
        cycle = _cycle(start, readers, done)
        if cycle:
            yield Anomaly(READ_CYCLE, " was read by ".join(cycle))


def _cycle(start: str, readers: dict[str, dict[str, str]], done: set[str]) -> list[str]:
    """The first that is met from here, without those from which there is none."""
    path: list[str] = []
    on_path: set[str] = set()
    stack: list[tuple[str, bool]] = [(start, False)]
    while stack:
        name, is_left = stack.pop()
        if is_left:
            path.pop()
            on_path.discard(name)
            done.add(name)
        elif name in on_path:
            return [*path[path.index(name) :], name]
        elif name not in done:
            path.append(name)
            on_path.add(name)
            stack.append((name, True))
            stack += [(each, False) for each in readers.get(name, ())]
    return []
