"""The batches of one partition, and which of them may be sent next.

The law: a batch gets its sequence when it is first sent, and batches are sent in the order of
their sequences. One that goes again is sent only if nothing before it is still unanswered, so
that after a failure one request at a time is under way until all are back in sequence.

Brokers take any sequence from a producer they have never heard of, so that the first batch goes
alone: if the second came first, it would be stored without it.

A batch that is given up after it had a sequence leaves a gap, and nothing behind a gap can be
stored. The queue is then *broken*, and needs a new epoch that begins with sequence 0. A batch that
may be stored under the old epoch can not be sent under the new one, or it could be stored twice:
it is asked about once more, and given up unless the broker has it. The others go on.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterator

from semel.client.producing.batch import ProducerBatch
from semel.types import NO_PRODUCER, ProducerIdAndEpoch, TopicPartition


def _position(batch: ProducerBatch) -> int:
    assert batch.position is not None, "only a batch with a sequence goes again"
    return batch.position


class PartitionQueue:
    def __init__(self, partition: TopicPartition, in_flight_max: int) -> None:
        self.partition = partition
        self.producer = NO_PRODUCER
        self.filling: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        """Full or ripe, without a sequence yet; the oldest first."""
        self.again: list[ProducerBatch] = []
        """With a sequence, to be sent again; in the order of sequences."""
        self.in_flight: list[ProducerBatch] = []
        self.is_broken = False
        self.is_recognised = False
        """Whether the broker would notice that a batch is missing."""
        self.not_before_ms = 0.0
        self._in_flight_max = in_flight_max
        self._next_position = 0
        self._next_number = 0
        self._acknowledged_position = 0
        """What is before it is acknowledged."""
        self.last_acknowledged_offset = -1

    @property
    def is_idle(self) -> bool:
        return not (self.filling or self.closed or self.again or self.in_flight)

    @property
    def has_sent(self) -> bool:
        """Whether anything was sent under the present epoch."""
        return self._next_position > 0

    def batches(self) -> Iterator[ProducerBatch]:
        """All that are not done."""
        yield from self.in_flight
        yield from self.again
        yield from self.closed
        if self.filling is not None:
            yield self.filling

    def oldest_waiting(self) -> ProducerBatch | None:
        """The first to come of those that are not under way, and so the first to be overdue."""
        if self.again:
            return self.again[0]
        return self.closed[0] if self.closed else self.filling

    def close(self) -> None:
        """No record is added to the batch that is being filled."""
        if self.filling is not None:
            self.closed.append(self.filling)
            self.filling = None

    def front(self, now_ms: float) -> ProducerBatch | None:
        """The batch to be sent now."""
        if now_ms < self.not_before_ms:
            return None
        if self.is_broken:
            return self._uncertain()
        if self.again:
            return self.again[0] if self._is_lowest(self.again[0]) else None
        window = self._in_flight_max if self.is_recognised else 1
        return self._first_new(now_ms) if self._window() < window else None

    def _window(self) -> int:
        """Batches from the oldest without an answer up to the last one sent.

        Answers may be overtaken by those of another leader; and brokers remember only the last
        five batches of a producer, so that a sixth would make them forget the oldest.
        """
        oldest = min((batch.number for batch in self.in_flight), default=self._next_number)
        return self._next_number - oldest

    def _first_new(self, now_ms: float) -> ProducerBatch | None:
        if self.closed:
            return self.closed[0]
        if self.filling is not None and self.filling.ripe_at_ms <= now_ms:
            return self.filling
        return None

    def _uncertain(self) -> ProducerBatch | None:
        if self.in_flight:
            return None
        return next((batch for batch in self.again if batch.may_be_stored), None)

    def _is_lowest(self, batch: ProducerBatch) -> bool:
        return all(_position(batch) < _position(other) for other in self.in_flight)

    def wakes_at_ms(self) -> float | None:
        """When `front` may have another answer though nothing has happened."""
        if self.again or self.closed:
            return self.not_before_ms
        if self.filling is not None:
            return max(self.not_before_ms, self.filling.ripe_at_ms)
        return None

    def take(self, batch: ProducerBatch) -> None:
        """Send the front."""
        if batch.position is None:
            if batch is self.filling:
                self.filling = None
            else:
                self.closed.popleft()
            batch.position = self._next_position
            batch.producer = self.producer
            self._next_position = batch.end_position
            batch.number = self._next_number
            self._next_number += 1
        else:
            self.again.remove(batch)
        # An answer may come late, when those before it have been acknowledged in the meantime.
        batch.was_next = batch.position == self._acknowledged_position
        batch.attempts += 1
        self.in_flight.append(batch)

    def acknowledge(self, batch: ProducerBatch) -> None:
        self.in_flight.remove(batch)
        self.is_recognised = True
        self._acknowledged_position = max(self._acknowledged_position, batch.end_position)

    def send_again(self, batch: ProducerBatch) -> None:
        self.in_flight.remove(batch)
        insort(self.again, batch, key=_position)

    def give_up(self, batch: ProducerBatch) -> None:
        """The batch will not be sent again, whatever became of it."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        elif batch in self.again:
            self.again.remove(batch)
        elif batch is self.filling:
            self.filling = None
        else:
            self.closed.remove(batch)
        if batch.position is not None and batch.producer != NO_PRODUCER:
            self.is_broken = True

    @property
    def is_resolved(self) -> bool:
        """Of a broken queue: whether all that are left are not stored."""
        return not self.in_flight and not any(batch.may_be_stored for batch in self.again)

    def restart(self, producer: ProducerIdAndEpoch, *, is_recognised: bool = False) -> None:
        """Begin anew at sequence 0, with the batches that are left."""
        assert not self.in_flight, "a batch is under way under the old epoch"
        for batch in reversed(self.again):
            batch.forget_sequence()
            self.closed.appendleft(batch)
        self.again.clear()
        self.producer = producer
        self.is_broken = False
        self.is_recognised = is_recognised
        self._next_position = 0
        self._acknowledged_position = 0
