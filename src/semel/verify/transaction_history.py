"""What transactional clients did and were told: one transaction of a client is an attempt."""

import enum
from typing import NamedTuple

from semel.types import TopicPartition
from semel.verify.history import Span, Stored


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


class StableEndSeen(NamedTuple):
    """ListOffsets said where the partition ends for read_committed readers."""

    span: Span
    partition: TopicPartition
    end_offset: int


class TopicGone(NamedTuple):
    """Someone has asked for its deletion; what was written to it may be gone."""

    topic: str
