"""One partition of a topic: where its log ends, who wrote to it, in which terms.

Two ends are kept apart. `log_end_offset` belongs to the applied state and moves when a batch is
appended; `high_watermark` belongs to the durable state and moves when the journal has been
synced. Readers are shown the second alone.
"""

from collections.abc import Callable
from typing import NamedTuple

from semel.errors import FencedLeaderEpoch, UnknownLeaderEpoch
from semel.log.producers import Producer, TakenBatch
from semel.records.batch import BatchHeader
from semel.types import Offset, ProducerEpoch, Sequence, Term, TopicPartition

NO_LEADER_EPOCH = -1
NO_OFFSET = -1


class TermStart(NamedTuple):
    term: Term
    offset: Offset


class Partition:
    __slots__ = (
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "number",
        "producers",
        "term_starts",
        "topic_partition",
        "watchers",
    )

    def __init__(self, topic_partition: TopicPartition, number: int) -> None:
        self.topic_partition = topic_partition
        self.number = number
        """The lane's own number for this partition, written before each of its batches."""
        self.log_start_offset = Offset(0)
        self.log_end_offset = Offset(0)
        self.high_watermark = Offset(0)
        self.producers: dict[int, Producer] = {}
        self.term_starts: list[TermStart] = []
        self.watchers: set[Callable[[], None]] = set()
        """Who wants to hear that the high watermark has moved. Not part of the lasting state."""

    def admit(self, header: BatchHeader, fingerprint: int) -> Offset | None:
        """None for a new batch, the first offset of the original for a retry; or a refusal."""
        if header.producer_id < 0:
            return None
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return None  # An unknown producer may begin at any sequence.
        return producer.duplicate_of(
            ProducerEpoch(header.producer_epoch),
            Sequence(header.base_sequence),
            Sequence(header.last_sequence),
            fingerprint,
        )

    def append(self, header: BatchHeader, fingerprint: int, term: Term, now_ms: int) -> Offset:
        """Take an admitted batch; gives the offset of its first record."""
        base_offset = self.log_end_offset
        if not self.term_starts or self.term_starts[-1].term != term:
            self.term_starts.append(TermStart(term, base_offset))
        if header.producer_id >= 0:
            epoch = ProducerEpoch(header.producer_epoch)
            producer = self.producers.get(header.producer_id)
            if producer is None:
                producer = self.producers[header.producer_id] = Producer(epoch, now_ms)
            taken = TakenBatch(
                Sequence(header.base_sequence),
                Sequence(header.last_sequence),
                base_offset,
                fingerprint,
            )
            producer.took(epoch, taken, now_ms)
        self.log_end_offset = Offset(base_offset + header.last_offset_delta + 1)
        return base_offset

    def has_silent_producer(self, before_ms: int) -> bool:
        return any(producer.active_at_ms < before_ms for producer in self.producers.values())

    def expire_producers(self, before_ms: int) -> None:
        """Forget whoever has written nothing since `before_ms`."""
        self.producers = {
            producer_id: producer
            for producer_id, producer in self.producers.items()
            if producer.active_at_ms >= before_ms
        }

    def end_of_term(self, term: int, current: Term) -> TermStart:
        """The largest term at or below `term` that wrote here, and where it ended.

        Only what is durable counts: a reader compares its own offsets with the answer.
        """
        if term < 0 or term > current:
            return TermStart(Term(NO_LEADER_EPOCH), Offset(NO_OFFSET))
        last = Term(term)
        for start in self.term_starts:
            if start.term > term:
                return TermStart(last, min(start.offset, self.high_watermark))
            last = start.term
        return TermStart(Term(term) if term == current else last, self.high_watermark)

    def term_at(self, offset: Offset, current: Term) -> Term:
        """The term in which the record at `offset` was or will be written."""
        written_in = current
        for start in reversed(self.term_starts):
            if offset < self.log_end_offset:
                written_in = start.term
            if start.offset <= offset:
                break
        return written_in


def check_leader_epoch(claimed: int, term: Term) -> None:
    """A client that names the leadership it knows must know the one there is."""
    if claimed in (NO_LEADER_EPOCH, term):
        return
    if claimed < term:
        raise FencedLeaderEpoch(f"leader epoch {claimed} is over, it is {term} now")
    raise UnknownLeaderEpoch(f"leader epoch {claimed} has not begun, it is {term} now")
