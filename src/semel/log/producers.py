"""Which batches of a producer a partition has already taken.

A producer may have five requests in flight, so the last five batches are remembered; a batch
equal to one of them is a retry and keeps its first offset. Equal means the same epoch, the same
first and last sequence and the same fingerprint (a checksum of what was produced): the numbers
alone do not tell a retry from a client that gave them to other records.
"""

from typing import NamedTuple

from semel.errors import InvalidProducerEpoch, OutOfOrderSequence
from semel.types import SEQUENCE_COUNT, Offset, ProducerEpoch, Sequence

BATCHES_REMEMBERED = 5


class TakenBatch(NamedTuple):
    first_sequence: Sequence
    last_sequence: Sequence
    base_offset: Offset
    fingerprint: int


class Producer:
    """One producer id, as one partition knows it."""

    __slots__ = ("active_at_ms", "epoch", "taken")

    def __init__(self, epoch: ProducerEpoch, active_at_ms: int) -> None:
        self.epoch = epoch
        self.active_at_ms = active_at_ms
        self.taken: list[TakenBatch] = []  # Oldest first; empty: any first sequence is taken.

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
        taken = self.taken
        if not taken:
            return None
        newest = taken[-1]
        if first == sequence_after(newest.last_sequence):
            return None
        for batch in taken:
            if batch.first_sequence == first and batch.last_sequence == last:
                if batch.fingerprint == fingerprint:
                    return batch.base_offset
                raise OutOfOrderSequence(
                    f"sequences {first} to {last} were taken with other records"
                )
        raise OutOfOrderSequence(
            f"sequence {first}, expected {sequence_after(newest.last_sequence)}"
        )

    def took(self, epoch: ProducerEpoch, batch: TakenBatch, now_ms: int) -> None:
        """Remember a batch that is now in the log."""
        taken = self.taken
        if epoch != self.epoch:
            self.epoch = epoch
            taken.clear()
        elif len(taken) == BATCHES_REMEMBERED:
            del taken[0]
        taken.append(batch)
        self.active_at_ms = now_ms


def sequence_after(sequence: Sequence) -> Sequence:
    return Sequence((sequence + 1) % SEQUENCE_COUNT)
