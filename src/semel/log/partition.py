"""One partition of a topic: where its log ends, who wrote to it, in which terms.

Two ends are kept apart. `log_end_offset` belongs to the applied state and moves when a batch is
appended; `high_watermark` belongs to the durable state and moves when the journal has been
synced. Readers are shown the second alone.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from semel.errors import FencedLeaderEpoch, OutOfOrderSequence, UnknownLeaderEpoch
from semel.log.producers import Producer, TakenBatch, check_unknown
from semel.log.transactions import Aborted, PartitionTransactions
from semel.records.batch import TRANSACTIONAL, BatchHeader
from semel.types import (
    SEQUENCE_COUNT,
    Offset,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
)

NO_LEADER_EPOCH: Final = -1
NO_OFFSET: Final = -1
HELD_UP_MAX: Final = 1000
"""Producers. The oldest is let go, so that a full disk does not fill the memory as well."""


class TermStart(NamedTuple):
    term: Term
    offset: Offset


class Partition:
    __slots__ = (
        "held_up",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "number",
        "producers",
        "term_starts",
        "topic_partition",
        "transactions",
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
        self.held_up: dict[int, tuple[int, int]] = {}
        """Unknown producers whose first batch found no room: its epoch and its sequence. Not part
        of the lasting state: what was sent behind that batch dies with its connection."""
        self.transactions = PartitionTransactions()
        self.term_starts: list[TermStart] = []
        self.watchers: dict[Callable[[], None], None] = {}
        """Who wants to hear that the high watermark has moved. Told in the order in
        which they came. Not part of the lasting state."""

    @property
    def last_stable_offset(self) -> Offset:
        """Where a read_committed reader has to stop.

        Records may be deleted behind the start of an open transaction; what is left of it is
        unstable from the start of the log on.
        """
        stable, start = self.transactions.last_stable_offset, self.log_start_offset
        return stable if stable > start else start  # noqa: FURB136 - a call less for each fetch.

    def advance_high_watermark(self, end: Offset) -> None:
        """The journal is durable up to the record before `end`: show that to readers."""
        self.high_watermark = end
        self.transactions.advance_high_watermark(end)

    def show_committed(self, marker_offset: Offset) -> None:
        """Let readers pass a transaction whose marker stands there, durable or not: all of it is
        durable, and how it ended can no longer change."""
        self.transactions.outcome_known(marker_offset)
        self.transactions.advance_high_watermark(self.high_watermark)

    def admit(
        self, header: BatchHeader, fingerprint: int, *, begins_at_zero: bool = False
    ) -> Offset | None:
        """None for a new batch, the first offset of the original for a retry; or a refusal.

        An unknown producer may begin at any sequence, unless its dialect gives each transaction
        an epoch of its own, whose sequences begin at zero.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self.producers.get(producer_id)
        epoch, first = header.producer_epoch, header.base_sequence
        if producer is None:
            check_unknown(first, from_zero=begins_at_zero)
            self._check_held_up(header)
            return None
        if producer.expects(epoch, first):
            return None
        return producer.duplicate_of(epoch, first, header.last_sequence, fingerprint)

    def found_no_room(self, header: BatchHeader) -> None:
        """An admitted batch was refused. If a smaller one behind it were taken as its producer's
        first, this one could never follow."""
        if header.base_sequence >= 0 and header.producer_id not in self.producers:
            self.held_up.setdefault(
                header.producer_id, (header.producer_epoch, header.base_sequence)
            )
            if len(self.held_up) > HELD_UP_MAX:
                del self.held_up[next(iter(self.held_up))]

    def _check_held_up(self, header: BatchHeader) -> None:
        epoch, first = self.held_up.get(header.producer_id, (header.producer_epoch, None))
        if first not in (None, header.base_sequence) and epoch == header.producer_epoch:
            raise OutOfOrderSequence(
                f"sequence {header.base_sequence}, but {first} found no room and must come first"
            )

    def append(self, header: BatchHeader, fingerprint: int, term: Term, now_ms: int) -> Offset:
        """Take an admitted batch; gives the offset of its first record."""
        term_starts = self.term_starts
        base_offset = self.log_end_offset
        if not term_starts or term_starts[-1].term != term:
            base_offset = self._next_offset(term)
        is_transactional = header.attributes & TRANSACTIONAL != 0
        first, last_offset_delta = header.base_sequence, header.last_offset_delta
        if first >= 0:
            producer_id, epoch = header.producer_id, header.producer_epoch
            producer = self.producers.get(producer_id)
            if producer is None:
                producer = Producer(epoch, now_ms)
                self.held_up.pop(producer_id, None)
            last = (first + last_offset_delta) % SEQUENCE_COUNT
            # Its own constructor is interpreted, also where all else is compiled.
            taken = tuple.__new__(TakenBatch, (first, last, base_offset, fingerprint))
            self.producers[producer_id] = producer.took(epoch, taken, now_ms, is_transactional)
        if is_transactional:
            self.transactions.wrote(header.producer_id, base_offset)
        self.log_end_offset = Offset(base_offset + last_offset_delta + 1)
        return base_offset

    def end_transaction(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        committed: bool,
        term: Term,
        now_ms: int,
    ) -> tuple[Offset, Aborted | None]:
        """Take a marker, which has an offset of its own; gives that, and what it aborted here."""
        term_starts = self.term_starts
        offset = self.log_end_offset
        if not term_starts or term_starts[-1].term != term:
            offset = self._next_offset(term)
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = Producer(epoch, now_ms)
        self.producers[producer_id] = producer.ended(epoch, now_ms, committed=committed)
        aborted = self.transactions.ended(producer_id, offset, committed=committed)
        self.log_end_offset = Offset(offset + 1)
        return offset, aborted

    def _next_offset(self, term: Term) -> Offset:
        offset = self.log_end_offset
        if not self.term_starts or self.term_starts[-1].term != term:
            self.term_starts.append(TermStart(term, offset))
        return offset

    def delete_before(self, offset: Offset) -> None:
        """Records below `offset` are no longer shown."""
        self.log_start_offset = offset
        if self.transactions.aborted_before is not None:
            self.transactions.aborted_before.forget_before(offset)

    def may_forget(self, producer_id: int, before_ms: int) -> bool:
        """Whether this producer is known, silent since then and has nothing open."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.may_expire(before_ms)

    def forget_producers(self, producer_ids: Iterable[int]) -> None:
        for producer_id in producer_ids:
            self.producers.pop(producer_id, None)

    def expire_producers(self, before_ms: int) -> None:
        """Forget whoever has written nothing since `before_ms` and has no transaction open."""
        self.producers = {
            producer_id: producer
            for producer_id, producer in self.producers.items()
            if not producer.may_expire(before_ms)
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
