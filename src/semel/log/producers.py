"""Which batches of a producer a partition has already taken.

A producer may have five requests in flight, so the last five batches are remembered; a batch
equal to one of them is a retry and keeps its first offset. Equal means the same epoch, the same
first and last sequence and the same fingerprint (a checksum of what was produced): the numbers
alone do not tell a retry from a client that gave them to other records.

A client may use the sequences of an aborted transaction again. So an abort forgets the batches of
that transaction and no others: those committed before it must still be known as duplicates.
"""

from typing import Final, NamedTuple

from semel.errors import InvalidProducerEpoch, OutOfOrderSequence
from semel.types import SEQUENCE_COUNT, Offset, ProducerEpoch, Sequence

BATCHES_REMEMBERED: Final = 5


class SequenceReused(OutOfOrderSequence):
    """Sequences that were taken come again with other records; this dooms a transaction."""


class NotRemembered(OutOfOrderSequence):
    """Older than what is remembered: only the log tells a retry from a mistake.

    The original, if there is one, begins at or behind `from_offset` and before `below_offset`.
    """

    def __init__(self, message: str, from_offset: Offset, below_offset: Offset) -> None:
        super().__init__(message)
        self.from_offset = from_offset
        self.below_offset = below_offset


class TakenBatch(NamedTuple):
    first_sequence: Sequence
    last_sequence: Sequence
    base_offset: Offset
    fingerprint: int


class TransactionStart(NamedTuple):
    sequence: Sequence
    offset: Offset


class Restart(NamedTuple):
    """The sequences at which the next batch may begin: the first to the last, both included."""

    first: Sequence
    last: Sequence

    def allows(self, sequence: Sequence) -> bool:
        span = (self.last - self.first) % SEQUENCE_COUNT
        return (sequence - self.first) % SEQUENCE_COUNT <= span


FROM_ZERO: Final = Restart(Sequence(0), Sequence(0))


class Producer:
    """One producer id, as one partition knows it.

    A value: what happens gives a successor, so that a copy of the partition's dict is a snapshot.
    Not a tuple, whose fields take longer to read, also where all else is compiled.
    """

    __slots__ = ("active_at_ms", "epoch", "restart", "taken", "transaction_start")

    def __init__(
        self,
        epoch: ProducerEpoch,
        active_at_ms: int,
        taken: tuple[TakenBatch, ...] = (),
        restart: Restart | None = None,
        transaction_start: TransactionStart | None = None,
    ) -> None:
        self.epoch: Final = epoch
        self.active_at_ms: Final = active_at_ms
        self.taken: Final = taken
        """Oldest first. If it is empty and there is no `restart`, any first sequence is taken."""
        self.restart: Final = restart
        """Set by a marker, until the next batch."""
        self.transaction_start: Final = transaction_start
        """Where the open transaction began in this partition."""

    def expects(self, epoch: ProducerEpoch, first: Sequence) -> bool:
        """Whether a batch is the next one beyond doubt, as most are. Others ask `duplicate_of`."""
        taken = self.taken
        if epoch != self.epoch or self.restart is not None or not taken:
            return False
        return first == (taken[-1].last_sequence + 1) % SEQUENCE_COUNT

    def duplicate_of(
        self, epoch: ProducerEpoch, first: Sequence, last: Sequence, fingerprint: int
    ) -> Offset | None:
        """The offset that this exact batch already has, or None if it is the next one.

        Raises InvalidProducerEpoch or OutOfOrderSequence if it may not be appended.
        """
        if epoch < self.epoch:
            raise InvalidProducerEpoch(f"epoch {epoch} is older than {self.epoch}")
        if epoch > self.epoch:
            if first != 0:
                raise OutOfOrderSequence(f"epoch {epoch} must begin at sequence 0, not {first}")
            return None
        if self._is_next(first):
            return None
        for batch in self.taken:
            if batch.first_sequence == first and batch.last_sequence == last:
                if batch.fingerprint == fingerprint:
                    return batch.base_offset
                raise SequenceReused(f"sequences {first} to {last} were taken with other records")
        message = f"sequence {first}, expected {self._expected()}"
        if self._is_older_than_remembered(last):
            start = self.transaction_start
            from_offset = Offset(0) if start is None else start.offset
            raise NotRemembered(message, from_offset, self.taken[0].base_offset)
        raise OutOfOrderSequence(message)

    def _is_older_than_remembered(self, last: Sequence) -> bool:
        if len(self.taken) < BATCHES_REMEMBERED:
            return False
        # Sequences wrap, so that older means less than half of them back.
        return 0 < (self.taken[0].first_sequence - last) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2

    def _is_next(self, first: Sequence) -> bool:
        if self.restart is not None:
            return self.restart.allows(first)
        taken = self.taken
        return not taken or first == (taken[-1].last_sequence + 1) % SEQUENCE_COUNT

    def _expected(self) -> str:
        if self.restart is None:
            return str(sequence_after(self.taken[-1].last_sequence))
        first, last = self.restart
        return str(first) if first == last else f"{first} to {last}"

    def took(
        self,
        epoch: ProducerEpoch,
        batch: TakenBatch,
        now_ms: int,
        is_transactional: bool,
    ) -> "Producer":
        """Remember a batch that is now in the log."""
        taken = self.taken
        start = self.transaction_start
        if epoch != self.epoch:
            taken = (batch,)
            start = None
        elif len(taken) < BATCHES_REMEMBERED:
            taken = (*taken, batch)
        else:
            # Each by its name, which is half as dear as a slice.
            _, second, third, fourth, fifth = taken
            taken = (second, third, fourth, fifth, batch)
        if is_transactional and start is None:
            start = tuple.__new__(TransactionStart, (batch.first_sequence, batch.base_offset))
        return Producer(epoch, now_ms, taken, None, start)

    def ended(self, epoch: ProducerEpoch, now_ms: int, *, committed: bool) -> "Producer":
        """A marker is now in the log; one of a newer epoch fences the writes of the older."""
        taken = self.taken
        restart = self.restart
        start = self.transaction_start
        if epoch > self.epoch:
            taken = ()
            restart = FROM_ZERO
        else:
            epoch = self.epoch
            if start is not None and not committed:
                # The batches of this transaction alone are forgotten.
                restart = Restart(start.sequence, sequence_after(taken[-1].last_sequence))
                taken = tuple(batch for batch in taken if batch.base_offset < start.offset)
        return Producer(epoch, now_ms, taken, restart)

    def may_expire(self, before_ms: int) -> bool:
        """Silent since then; but an open transaction keeps its producer known."""
        return self.active_at_ms < before_ms and self.transaction_start is None


def sequence_after(sequence: Sequence) -> Sequence:
    return Sequence((sequence + 1) % SEQUENCE_COUNT)


def check_unknown(first: Sequence, *, from_zero: bool) -> None:
    """A producer that the partition does not know may begin anywhere, because it may have expired.

    Not under TV2 (`from_zero`), where every transaction has an epoch of its own: what is missing
    before its first sequence here is lost.
    """
    if from_zero and first != 0:
        raise OutOfOrderSequence(f"an unknown producer must begin at sequence 0, not {first}")
