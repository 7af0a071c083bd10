"""The story of a transactional id: its values in the log cut into transactions, with their traces.

The parts that talk to each other are those of the protocol, and so are the ways between them:

    (a)  the producer asks its coordinator: init, begin, end
    (b)  the coordinator notes each state in the transaction log
    (c)  the producer writes to the data logs
    (d)  the coordinator marks the end in the data logs

Which trace in a partition is of which transaction: under TV2 every transaction ends under an epoch
of its own. Under TV1 many share one, and the time of the marker tells: the first one not before
the decision, since the next transaction cannot be decided before this one is marked.

Over several lanes each other one joins in a term, and votes before a commit. Votes are not in the
log; what is there behind the commit that was asked for tells what they were.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, Literal, NamedTuple

from semel.cli.times import duration_in_words
from semel.client.admin.transaction_history import StoredValue, TransactionTrace
from semel.records.control import MarkerType
from semel.spelling import noun
from semel.transactions.dialect import Dialect
from semel.transactions.key import TransactionKey
from semel.transactions.transaction import NO_TERM, PREPARED, JoinedLane, Status, Transaction
from semel.types import TopicPartition

COMPLETED = frozenset({Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})
_COMMITS = frozenset({Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT})
_OUTCOMES = {
    Status.EMPTY: "initialised",
    Status.ONGOING: "open",
    Status.PREPARE_COMMIT: "committing",
    Status.PREPARE_ABORT: "aborting",
    Status.COMPLETE_COMMIT: "committed",
    Status.COMPLETE_ABORT: "aborted",
    Status.DEAD: "forgotten",
}

_SKEW_MS = 5_000
"""How far the clocks of two brokers may lie apart."""


Vote = Literal["awaited", "yes", "no"]
"""Of all other lanes together."""

_VOTES: Final[Mapping[Vote, str]] = {
    "awaited": "other lanes vote",
    "yes": "other lanes said yes",
    "no": "another lane said no, as it may have lost writes",
}


class Event(NamedTuple):
    flow: str
    """The letter of the way that it goes."""
    at_ms: int | None
    """By the clock of the coordinator; what others stamped is put between what must surround it."""
    what: str
    words: str
    partition: TopicPartition | None = None
    first_offset: int | None = None
    last_offset: int | None = None


class Story(NamedTuple):
    """One transaction from its beginning, with the initialisation before it if there was one."""

    values: Sequence[StoredValue]
    successor: StoredValue | None = None
    """What follows in the log."""
    traces: Mapping[TopicPartition, TransactionTrace] = {}

    @property
    def outcome(self) -> str:
        return _OUTCOMES[self.values[-1].value.status]

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset().union(*(stored.value.partitions for stored in self.values))

    @property
    def ended(self) -> StoredValue | None:
        """The value that decided how it ends; the later one is kept when a log is compacted."""
        ends = PREPARED | COMPLETED
        return next((stored for stored in self.values if stored.value.status in ends), None)

    @property
    def started_at_ms(self) -> int:
        """When the transaction began; if none did, when the id was initialised."""
        for stored in self.values:
            if stored.value.status is Status.ONGOING:
                return stored.written_at_ms
        return self.values[0].written_at_ms

    @property
    def key(self) -> TransactionKey | None:
        """By which other lanes know it, with the coordinator's own; None if there are none."""
        return next((stored.value.key for stored in self.values if stored.value.lanes), None)

    @property
    def lanes(self) -> tuple[JoinedLane, ...]:
        """The others; the end no longer names them, so a compacted log may not either."""
        return next(
            (stored.value.lanes for stored in reversed(self.values) if stored.value.lanes), ()
        )

    @property
    def vote(self) -> Vote | None:
        """None if none was needed: nobody asked to commit, or no other lane had joined."""
        return _vote(self.values[-1].value, self.lanes)

    @property
    def title(self) -> str:
        last = self.values[-1]
        words = [self.outcome]
        if self.ended is not None:
            words.append(f"after {duration_in_words(last.written_at_ms - self.started_at_ms)}")
        producer = self.ended or last
        words.append(f"by producer {producer.value.producer_id}")
        if self.key is not None:
            others = ", ".join(str(each.lane) for each in self.lanes)
            words.append(f"of lane {self.key.lane}, with {noun(len(self.lanes), 'lane')} {others}")
        return " ".join(words)


def stories_of(values: Iterable[StoredValue]) -> list[Story]:
    """Cut where something begins: an initialisation, or the next transaction behind an end."""
    stories: list[list[StoredValue]] = []
    for stored in values:
        status = stored.value.status
        is_begun = bool(stories) and stories[-1][-1].value.status not in COMPLETED | {Status.DEAD}
        if not is_begun or status in (Status.EMPTY, Status.DEAD):
            stories.append([])
        stories[-1].append(stored)
    successors = [story[0] for story in stories[1:]]
    return [Story(story, successor) for story, successor in zip_longest(stories, successors)]


def events_of(story: Story) -> Iterator[Event]:
    """What happened, in the order in which it did."""
    written = deque(sorted(_written(story), key=_moment))
    before: StoredValue | None = None
    for stored in story.values:
        status = stored.value.status
        is_end = status in PREPARED | COMPLETED
        while written and (is_end or _moment(written[0]) < stored.written_at_ms):
            yield written.popleft()
        if status in COMPLETED:
            yield from _marked(story)
        cause = _cause(story, stored, before)
        if status not in COMPLETED | {Status.DEAD} and not cause and _is_asked_for(stored, before):
            yield _asked(stored, before)
        yield _noted(story, stored, before, cause)
        before = stored
    yield from written
    if story.values[-1].value.status in PREPARED:
        yield from _marked(story)


def _moment(event: Event) -> int:
    return event.at_ms or 0


def _vote(value: Transaction, lanes: Iterable[JoinedLane]) -> Vote | None:
    """Law: only a no leads from a commit that was asked for to an abort."""
    has_voters = any(each.term != NO_TERM for each in lanes)
    match value.status:
        case Status.PREPARE_COMMIT if has_voters:
            return "awaited"
        case Status.COMPLETE_COMMIT if has_voters:
            return "yes"
        case Status.COMPLETE_ABORT if value.is_voted_down:
            return "no"
        case _:
            return None


def _is_asked_for(stored: StoredValue, before: StoredValue | None) -> bool:
    """False if a lane has joined with partitions that were there, or what is open was doomed."""
    if before is None or {stored.value.status, before.value.status} != {Status.ONGOING}:
        return True
    return not stored.value.partitions <= before.value.partitions


def _asked(stored: StoredValue, before: StoredValue | None) -> Event:
    value = stored.value
    match value.status:
        case Status.EMPTY:
            what, words = "init", f"init, timeout {duration_in_words(value.timeout_ms)}"
        case Status.ONGOING:
            is_first = before is None or before.value.status is not Status.ONGOING
            joined = value.partitions - (before.value.partitions if before else frozenset())
            names = ", ".join(map(str, sorted(joined)))
            what = "begin" if is_first else "join"
            words = f"{what} with {names}" if is_first else f"{what} {names}"
        case _:
            what = "commit" if value.status in _COMMITS else "abort"
            words = f"end: {what}"
    return Event("a", stored.written_at_ms, what, words)


def _cause(story: Story, stored: StoredValue, before: StoredValue | None) -> str:
    """Why it was aborted, if not because its producer asked for that."""
    value = stored.value
    if value.status is not Status.PREPARE_ABORT:
        return ""
    if stored.written_at_ms - value.started_at_ms >= value.timeout_ms:
        return f"its {duration_in_words(value.timeout_ms)} are over"
    after = story.successor
    if after and after.value.status is Status.EMPTY and after.written_at_ms == stored.written_at_ms:
        return "its successor came"
    # A TV1 producer keeps its epoch when it aborts.
    if before is None or before.value.client_version >= Dialect.TV2:
        return ""
    is_bumped = before.value.producer_epoch != value.producer_epoch
    return "by its coordinator" if is_bumped else ""


def _noted(story: Story, stored: StoredValue, before: StoredValue | None, cause: str) -> Event:
    value = stored.value
    name = value.transactional_id
    if value.status is Status.EMPTY:
        words = f"init({name}): producer {value.producer_id} epoch {value.producer_epoch}"
    elif value.status is Status.DEAD:
        words = f"{name} is forgotten"
    else:
        state = {
            Status.ONGOING: "ongoing",
            Status.PREPARE_COMMIT: "prepare commit",
            Status.PREPARE_ABORT: "prepare abort",
        }.get(value.status, _OUTCOMES[value.status])
        words = f"{name} → {state}"
        if before is not None and before.value.producer_epoch != value.producer_epoch:
            words += f", epoch {value.producer_epoch}"
        known = before.value.lanes if before is not None else ()
        for lane, term in value.lanes:
            if term != NO_TERM and (lane, term) not in known:
                words += f", lane {lane} in term {term}"
        if value.is_doomed and not (before is not None and before.value.is_doomed):
            words += ", can only be aborted"
        vote = _vote(value, story.lanes)
        reason = cause or (_VOTES[vote] if vote is not None else "")
        if reason:
            words += f": {reason}"
    return Event(
        "b",
        stored.written_at_ms,
        value.status.label,
        words,
        first_offset=stored.offset,
        last_offset=stored.offset,
    )


def _written(story: Story) -> Iterator[Event]:
    """A record is stamped when it is made, by a clock of the producer's own.

    It is written after its partition has joined, and before the end is decided.
    """
    joined_at_ms = _joined_at_ms(story)
    for partition in sorted(story.partitions):
        trace = story.traces.get(partition)
        written = trace.written if trace else None
        if written is None:
            continue
        first, last = written.first_offset, written.last_offset
        noun = "record" if written.record_count == 1 else "records"
        span = f"offset {first}" if first == last else f"offsets {first} to {last}"
        words = f"{partition}: {written.record_count} {noun}, {span}"
        at_ms = max(written.first_timestamp_ms, joined_at_ms.get(partition, 0))
        if story.ended is not None:
            at_ms = min(at_ms, story.ended.written_at_ms)
        yield Event("c", at_ms, "written", words, partition, first, last)


def _joined_at_ms(story: Story) -> dict[TopicPartition, int]:
    """Where that is known: a compacted log has only the end."""
    joined: dict[TopicPartition, int] = {}
    for stored in story.values:
        if stored.value.status is Status.ONGOING:
            for partition in stored.value.partitions:
                joined.setdefault(partition, stored.written_at_ms)
    return joined


def _marked(story: Story) -> Iterator[Event]:
    """Each is stamped by the leader of its partition, between the decision and its completion."""
    assert story.ended is not None, "what is marked has been decided"
    decided_at_ms = story.ended.written_at_ms
    last = story.values[-1]
    completed_at_ms = last.written_at_ms if last.value.status in COMPLETED else None
    for partition in sorted(story.partitions):
        trace = story.traces.get(partition)
        marker = trace.marker if trace else None
        if marker is None:
            yield Event("d", None, "unseen", f"{partition}: marker not found", partition)
            continue
        what = "commit" if marker.type is MarkerType.COMMIT else "abort"
        words = f"{partition}: {what} marker, offset {marker.offset}"
        offset = marker.offset
        at_ms = max(marker.timestamp_ms, decided_at_ms)
        if completed_at_ms is not None:
            at_ms = min(at_ms, completed_at_ms)
        yield Event("d", at_ms, what, words, partition, offset, offset)


def with_traces(
    stories: Sequence[Story], traces: Mapping[TopicPartition, Sequence[TransactionTrace]]
) -> list[Story]:
    matched: list[dict[TopicPartition, TransactionTrace]] = [{} for _ in stories]
    for partition, left in traces.items():
        for number, trace in _matches(stories, partition, left):
            matched[number][partition] = trace
    return [story._replace(traces=found) for story, found in zip(stories, matched, strict=True)]


def _matches(
    stories: Sequence[Story], partition: TopicPartition, traces: Sequence[TransactionTrace]
) -> Iterable[tuple[int, TransactionTrace]]:
    waiting = {
        number: story for number, story in enumerate(stories) if partition in story.partitions
    }
    left = list(enumerate(traces))
    for is_marked_in_time in (_is_marked_behind, _is_marked_about):
        bound = len(traces)
        for number in sorted(waiting, reverse=True):
            story = waiting[number]
            fits = [
                (position, trace)
                for position, trace in left
                if position < bound and _is_of(story, trace) and is_marked_in_time(story, trace)
            ]
            if fits:
                found = min(fits, key=lambda fit: (_lag_ms(story, fit[1]), -fit[0]))
                left.remove(found)
                bound = found[0]
                del waiting[number]
                yield number, found[1]


def _is_of(story: Story, trace: TransactionTrace) -> bool:
    ended = story.ended
    if ended is None or trace.marker is None:
        same_kind = ended is None and trace.marker is None
        return same_kind and trace.producer_id == story.values[-1].value.producer_id
    return (trace.producer_id, trace.marker.producer_epoch) == (
        ended.value.producer_id,
        ended.value.producer_epoch,
    )


def _marked_at_ms(trace: TransactionTrace) -> int:
    return trace.marker.timestamp_ms if trace.marker else 0


def _lag_ms(story: Story, trace: TransactionTrace) -> int:
    """From the decision to the marker."""
    return abs(_marked_at_ms(trace) - story.ended.written_at_ms) if story.ended else 0


def _is_marked_behind(story: Story, trace: TransactionTrace) -> bool:
    return story.ended is None or _marked_at_ms(trace) >= story.ended.written_at_ms


def _is_marked_about(story: Story, trace: TransactionTrace) -> bool:
    return _lag_ms(story, trace) <= _SKEW_MS
