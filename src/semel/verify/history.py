"""What the clients saw and what was done to the broker, in the order in which it was noted.

An answer is noted with the times of its request and of its arrival: what was answered before
another request was sent must be visible in the answer to that one.
"""

import enum
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from semel.types import TopicPartition
from semel.verify.world.loop import Trace

COMMIT_MARKER, ABORT_MARKER = "~commit", "~abort"
"""Labels of markers, which no record has."""


class Span(NamedTuple):
    """Simulated seconds."""

    began_s: float
    ended_s: float


class Stored(NamedTuple):
    """A record as a reader was shown it."""

    offset: int
    leader_epoch: int
    label: str
    producer_id: int = -1
    """Of a record of a transaction, or of the marker that ended one."""
    producer_epoch: int = -1


class Sent(NamedTuple):
    """A batch has left its producer for the first time."""

    producer: str
    partition: TopicPartition
    labels: tuple[str, ...]
    acks: int
    is_idempotent: bool
    is_repeated: bool = False
    """It is sent again, byte for byte and in order, until it is acknowledged."""


class Acknowledged(NamedTuple):
    span: Span
    producer: str
    partition: TopicPartition
    labels: tuple[str, ...]
    acks: int
    base_offset: int
    term: int


class Refused(NamedTuple):
    producer: str
    partition: TopicPartition
    labels: tuple[str, ...]
    acks: int
    code: int
    is_next: bool
    """Everything that this producer sent to the partition before it is acknowledged."""
    was_acknowledged_once_written: bool
    """Some batch before it was acknowledged before it was durable."""


class Fetched(NamedTuple):
    span: Span
    reader: str
    partition: TopicPartition
    from_offset: int
    records: tuple[Stored, ...]
    high_watermark: int


class FetchRefused(NamedTuple):
    reader: str
    partition: TopicPartition
    offset: int
    code: int


class EndSeen(NamedTuple):
    """ListOffsets said where the partition ends."""

    span: Span
    partition: TopicPartition
    end_offset: int


class TermEndSeen(NamedTuple):
    """OffsetForLeaderEpoch, answered in `term`."""

    span: Span
    partition: TopicPartition
    asked: int
    end_offset: int
    term: int


class TermSeen(NamedTuple):
    span: Span
    term: int


class ProducerIdGiven(NamedTuple):
    producer: str
    producer_id: int


class Joined(NamedTuple):
    span: Span
    group: str
    member: str
    generation: int


class Assigned(NamedTuple):
    span: Span
    group: str
    owner: str
    """The member; one that keeps its place over its lives goes by the name of the place."""
    generation: int
    partitions: tuple[TopicPartition, ...]


class Beaten(NamedTuple):
    """A heartbeat of a member was answered, and nothing was amiss."""

    span: Span
    member: str
    kept_s: float
    """For at least so long the member stays from the moment on at which it was heard."""


class Expelled(NamedTuple):
    """One who was a member is answered as no one that the group knows."""

    span: Span
    member: str


class CommitTried(NamedTuple):
    group: str
    partition: TopicPartition
    offset: int


class Committed(NamedTuple):
    span: Span
    group: str
    partition: TopicPartition
    offset: int


class OffsetSeen(NamedTuple):
    span: Span
    group: str
    partition: TopicPartition
    offset: int
    is_stable: bool = False
    """Nothing of a transaction was pending there."""


class TopicMade(NamedTuple):
    """Created, or given more partitions."""

    span: Span
    topic: str
    partition_count: int


class DeletionTried(NamedTuple):
    began_s: float
    topic: str


class Deleted(NamedTuple):
    span: Span
    topic: str


class TopicSeen(NamedTuple):
    span: Span
    topic: str
    partition_count: int
    """0: there is no such topic."""


class Forbidden(NamedTuple):
    """The broker has agreed to what it must refuse."""

    what: str


class Cause(enum.Enum):
    KILLED = "killed"
    POWER_LOSS = "power loss"
    IO_ERROR = "I/O error"
    STOPPED = "stopped"
    CRASHED = "crashed"


class Died(NamedTuple):
    at_s: float
    cause: Cause
    reason: str = ""


class TakenOver(NamedTuple):
    """A lane was fenced, and its leader had not let go of it: what that had acknowledged before it
    was durable is gone."""

    at_s: float
    lane: int


class SeveralNodes(NamedTuple):
    """One leads, and another that was frozen or cut off may believe for a while that it does. What
    it shows of a log is true, and may be old; what it says of where a log ends may not be."""

    node_ids: tuple[int, ...]
    lane_count: int = 1
    can_be_fenced: bool = True
    """False: who leads a lane is the only one who can."""


class EpochSeen(NamedTuple):
    """A node said of itself that it leads, with this leader epoch."""

    span: Span
    partition: TopicPartition
    leader_epoch: int
    node_id: int


class OpenFailed(NamedTuple):
    reason: str


class Complaint(NamedTuple):
    """An exception that nothing in the broker has caught."""

    reason: str


class NotServing(NamedTuple):
    reason: str


class WholeLog(NamedTuple):
    """All of a partition, read when everything had come to rest."""

    round: int
    partition: TopicPartition
    records: tuple[Stored, ...]
    high_watermark: int
    last_stable_offset: int | None = None
    log_start_offset: int = 0
    byte_count: int = 0
    """Of its batches."""
    at_s: float = 0.0


class MayBeGone(NamedTuple):
    """Someone asked for the log to begin at this offset, or what is before it was old enough."""

    partition: TopicPartition
    before_offset: int


class Compacted(NamedTuple):
    """Of each key of this topic only the newest record has to stay."""

    topic: str


class Limits(NamedTuple):
    """By what a topic forgets besides."""

    topic: str
    retention_ms: int | None
    """None: nothing is ever too old."""
    retention_bytes: int | None
    delete_retention_ms: int
    """For how long a compacted topic shows that a key was deleted."""


class RecordMade(NamedTuple):
    """What a record of a topic with limits says, besides its label."""

    partition: TopicPartition
    label: str
    key: str | None
    has_value: bool
    """False: it deletes its key."""
    timestamp_ms: int


class ClockSet(NamedTuple):
    """By how much the wall clock of the machine is wrong from here on."""

    at_s: float
    error_ms: int


class StartSeen(NamedTuple):
    """A fetch said where the partition begins, and up to where it is stable."""

    span: Span
    partition: TopicPartition
    log_start_offset: int
    last_stable_offset: int


class Resurrected(NamedTuple):
    """Someone was shown what was gone for good."""

    what: str


class SpaceSeen(NamedTuple):
    """What lay on the disk at rest, and what of it anyone can be shown."""

    round: int
    disk_bytes: int
    shown_bytes: int


# Transactions: one transaction of a client is an attempt.


class EpochGiven(NamedTuple):
    """By InitProducerId, or with the answer to EndTxn."""

    span: Span
    transactional_id: str
    incarnation: str
    producer_id: int
    producer_epoch: int
    is_new_incarnation: bool
    """Whoever held the id before is fenced."""


class Began(NamedTuple):
    attempt: str
    transactional_id: str
    incarnation: str
    dialect: str


class Written(NamedTuple):
    """A batch of the attempt is sent for the first time."""

    attempt: str
    partition: TopicPartition
    labels: tuple[str, ...]


class Strayed(NamedTuple):
    """A batch of the attempt is sent, and its end does not wait for it: if it comes in time it is
    a part of it, and otherwise of nothing."""

    attempt: str
    partition: TopicPartition
    labels: tuple[str, ...]


class WriteAcknowledged(NamedTuple):
    span: Span
    attempt: str
    partition: TopicPartition
    base_offset: int
    record_count: int


class OffsetsWritten(NamedTuple):
    """The attempt consumed `inputs` and is about to commit the offset behind them."""

    attempt: str
    group: str
    partition: TopicPartition
    offset: int
    inputs: tuple[int, ...]


class CommitSent(NamedTuple):
    at_s: float
    attempt: str


class Outcome(enum.Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"


class Ended(NamedTuple):
    """What the client was told; an attempt without it may have any outcome once commit was sent."""

    span: Span
    attempt: str
    outcome: Outcome


class TimedOut(NamedTuple):
    """One whom nobody else could fence was told that it is."""

    span: Span
    attempt: str
    began_s: float
    """Its first request was sent then, so that its timer rings no earlier than a timeout later."""
    timeout_s: float


class Refusal(NamedTuple):
    attempt: str
    request: str
    code: int


class Unwelcome(NamedTuple):
    """An answer that no request of a well-behaved client may get."""

    attempt: str
    dialect: str
    request: str
    code: int


class CommittedFetched(NamedTuple):
    """What a read_committed client is left with after it has dropped the aborted."""

    span: Span
    reader: str
    partition: TopicPartition
    from_offset: int
    next_offset: int
    records: tuple[Stored, ...]
    last_stable_offset: int
    high_watermark: int
    epoch: int = -1
    """In which it was answered, where there are several nodes."""


class StableEndSeen(NamedTuple):
    """ListOffsets said where the partition ends for read_committed readers."""

    span: Span
    partition: TopicPartition
    end_offset: int


class TopicGone(NamedTuple):
    """Someone has asked for its deletion; what was written to it may be gone."""

    topic: str


Kind = TypeVar("Kind", bound=tuple[object, ...])


class History:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._events: list[tuple[object, ...]] = []
        self._awaited: dict[type[object], Callable[[], None]] = {}

    def note(self, event: tuple[object, ...]) -> None:
        self._trace.add(type(event).__name__, repr(event).encode())
        self._events.append(event)
        react = self._awaited.pop(type(event), None) if self._awaited else None
        if react is not None:
            react()

    def when_next(self, kind: type[Kind], react: Callable[[], None]) -> None:
        """Call it once, as soon as something of this kind is noted."""
        self._awaited[kind] = react

    def await_nothing(self) -> None:
        self._awaited.clear()

    def all(self, kind: type[Kind]) -> Iterator[Kind]:
        return (event for event in self._events if isinstance(event, kind))

    def count(self, kind: type[Kind]) -> int:
        return sum(1 for _ in self.all(kind))
