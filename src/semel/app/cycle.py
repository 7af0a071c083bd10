"""One read-process-write cycle of a listener: calls of its function, and what came of them.

The cycle decides and calls nothing: it yields what the function is to be called with and takes the
exception, if there was one. So one cycle serves functions in a thread and on the loop.

Order is kept per partition: behind a record that is not done, none of its partition is begun. A
call that failed leaves nothing behind, so that the other records of the cycle go on without it.
A record that cannot be worked on is laid aside as a dead letter: itself, and what went wrong.
"""

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from semel.app.failure import Failure, in_words
from semel.app.outbox import Outbox, Outgoing
from semel.app.portion import Portion
from semel.app.retry_policy import RetryPolicy
from semel.client.consuming.record import Record
from semel.records.records import RecordHeader
from semel.types import TopicPartition

Steps = Generator[tuple[Any, Outbox], Exception | None, "CycleOutcome"]
AttemptsOf = Callable[[TopicPartition, int], int]
"""How often the record at this offset has failed before."""
GivenUp = Callable[[TopicPartition, int], "Failure | None"]
"""Why the record at this offset is not to be tried again."""

PREFIX = "semel.dead."
_MESSAGE_SIZE_MAX = 4096


class Doubt(NamedTuple):
    """One of several records is at fault, and it is not known which."""

    until: int
    """The offset behind the last of them."""
    record_count_max: int
    """How many to try at a time."""


class Rules(NamedTuple):
    retry_policy: RetryPolicy
    dead_letters: str | None


def nothing_given_up(partition: TopicPartition, offset: int) -> Failure | None:
    return None


@dataclass
class CycleOutcome:
    outbox: Outbox
    done: dict[TopicPartition, int] = field(default_factory=dict)
    """The offsets to commit."""
    undone: dict[TopicPartition, int] = field(default_factory=dict)
    """Where to go on in partitions that were not done to the end."""
    failures: dict[TopicPartition, Failure] = field(default_factory=dict)
    """What is to be tried again after a pause."""
    doubts: dict[TopicPartition, Doubt] = field(default_factory=dict)
    """What is to be tried in smaller parts, since one record failed them all."""
    doubted_for: Exception | None = None
    """What the one record has failed them all with."""
    dead: list[Failure] = field(default_factory=list)
    """What is given up: the outbox has a letter for each."""
    final: Failure | None = None
    """What ends the listener: nothing more can be done about this record."""
    done_count: int = 0
    last: Record | None = None
    """The record of the last call, if each had one."""
    too_slow: Record | None = None
    """The record that took longer than the group waits for its members."""

    def fail(self, rules: Rules, failure: Failure) -> None:
        record, error, attempt = failure
        partition = TopicPartition(record.topic, record.partition)
        if rules.retry_policy.allows(error, attempt):
            self.failures[partition] = failure
            self.undone[partition] = record.offset
        elif rules.dead_letters is not None:
            self.outbox.put(dead_letter(rules.dead_letters, record, error, attempt))
            self.dead.append(failure)
            self.done[partition] = record.offset + 1
        else:
            self.final = failure
            self.undone[partition] = record.offset


def one_by_one(
    portion: Portion,
    rules: Rules,
    outbox: Outbox,
    attempts_of: AttemptsOf,
    is_over: Callable[[], bool],
    given_up: GivenUp = nothing_given_up,
) -> Steps:
    """A call for each record, until the time of the cycle is over."""
    outcome = CycleOutcome(outbox)
    is_begun = False
    for record in portion.records():
        partition = TopicPartition(record.topic, record.partition)
        if partition in outcome.undone:
            continue
        if outcome.final is not None or (is_begun and is_over()):
            outcome.undone[partition] = record.offset
            continue
        known = given_up(partition, record.offset)
        if known is not None:
            outcome.fail(rules, known)
            continue
        is_begun = True
        outcome.last = record
        kept_count = len(outbox.records)
        error = yield record, outbox
        if error is None:
            outcome.done[partition] = record.offset + 1
            outcome.done_count += 1
        else:
            outbox.cut(kept_count)
            attempt = attempts_of(partition, record.offset) + 1
            outcome.fail(rules, Failure(record, error, attempt))
    return outcome


def all_at_once(
    portion: Portion,
    rules: Rules,
    outbox: Outbox,
    attempts_of: AttemptsOf,
    given_up: GivenUp = nothing_given_up,
) -> Steps:
    """One call for all of them; if it fails, they are to be tried in smaller parts."""
    outcome = CycleOutcome(outbox)
    # One that is given up failed alone, so that its partition is done up to it.
    for partition, offset in portion.firsts.items():
        known = given_up(partition, offset)
        if known is not None:
            outcome.undone = {**portion.firsts, partition: offset + 1}
            outcome.fail(rules, known)
            return outcome
    error = yield portion.content, outbox
    if error is None:
        outcome.done = dict(portion.nexts)
        outcome.done_count = portion.record_count
        return outcome
    outbox.cut(0)
    if portion.record_count > 1:
        doubt(outcome, portion, error)
    else:
        ((partition, offset),) = portion.firsts.items()
        attempt = attempts_of(partition, offset) + 1
        outcome.fail(rules, Failure(portion.records()[0], error, attempt))
    return outcome


def doubt(outcome: CycleOutcome, portion: Portion, error: Exception) -> None:
    """Look for the record at fault: partition by partition, then in halves."""
    counts = Counter(record.topic_partition for record in portion.records())
    parts = 2 if len(counts) == 1 else 1
    outcome.undone = dict(portion.firsts)
    outcome.doubted_for = error
    outcome.doubts = {
        partition: Doubt(portion.nexts[partition], max(1, count // parts))
        for partition, count in counts.items()
    }


def dead_letter(topic: str, record: Record, error: Exception, attempts: int) -> Outgoing:
    """The record with its key, value and headers, and further headers that tell its story."""
    story = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp_ms": str(record.timestamp_ms),
        "exception": _name_of(error),
        "message": in_words(error),
        "attempts": str(attempts),
    }
    added: list[RecordHeader] = [
        # A message may quote the record, which must not make the letter too large to be sent.
        (PREFIX + name, text.encode(errors="replace")[:_MESSAGE_SIZE_MAX])
        for name, text in story.items()
    ]
    return Outgoing(topic, record.value, record.key, (*record.headers, *added))


def _name_of(error: Exception) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
