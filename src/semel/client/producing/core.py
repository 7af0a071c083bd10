"""The producer without its sockets: records in, requests out, answers in, outcomes out.

It has no clock, no loop and no dice. Whoever drives it hands in the time, sends the requests
that `drain` returns, and tells of each either its answers or that it was lost.
"""

from collections.abc import Iterable, Sequence

from semel.client import outcome
from semel.client.cluster.metadata import TopicRemade
from semel.client.connecting.topic_ids import NO_ID
from semel.client.outcome import ErrorKind
from semel.client.producing.batch import RECORD_OVERHEAD_SIZE, ProducerBatch, headers_size
from semel.client.producing.failures import Failures
from semel.client.producing.queue import PartitionQueue
from semel.client.producing.requests import BatchAnswer, Request, Work, sooner
from semel.client.producing.settings import ProducerSettings
from semel.client.producing.transaction_state import TransactionState
from semel.errors import (
    DuplicateSequence,
    OutOfOrderSequence,
    RequestError,
    RequestTimedOut,
    UnknownProducerId,
)
from semel.records.records import RecordHeader
from semel.types import EPOCH_MAX, NO_PRODUCER, ProducerIdAndEpoch, TopicPartition


class ProducerCore:
    def __init__(self, settings: ProducerSettings) -> None:
        self.settings = settings
        self._batch_size_max = settings.batch_size_max
        self._buffered_size_max = settings.buffered_size_max
        self.producer = NO_PRODUCER
        self.transaction = (
            None
            if settings.transactional_id is None
            else TransactionState(settings.transactional_id)
        )
        self.leaders: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        """As last described; none where the cluster has none."""
        self._replaced_ids: set[bytes] = set()
        """Of topics that were deleted and made anew since."""
        self.buffered_size = 0
        self.fatal: Exception | None = None
        self.settled: list[ProducerBatch] = []
        """Done since they were last taken; their waiters are to be told."""
        self.failures = Failures()
        self.has_news = False
        """Whether a record was added that `drain` should look at, or time by."""
        self.wants_leaders = False
        """Whether the leaders may have changed, or one is not known."""
        self.now_ms = 0.0
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}
        self._in_flight_counts: dict[int, int] = {}
        self._begun: list[ProducerBatch] = []
        """Begun since the last look at the clock."""

    # Records

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            in_flight_max = self.settings.in_flight_max if self.settings.is_idempotent else 1
            queue = self._queues[partition] = PartitionQueue(partition, in_flight_max)
            queue.producer = self.producer
            queue.is_recognised = self._are_starts_checked
        return queue

    @property
    def _are_starts_checked(self) -> bool:
        """Whether brokers insist on sequence 0 from a producer that is new to them (KIP-890)."""
        return self.transaction is not None and self.transaction.is_implicit

    @property
    def has_room(self) -> bool:
        return self.buffered_size < self._buffered_size_max

    @property
    def is_hindered(self) -> bool:
        """Whether a record cannot be taken now."""
        return self.buffered_size >= self._buffered_size_max or self.fatal is not None

    def append(
        self,
        queue: PartitionQueue,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
        timestamp_ms: int,
    ) -> ProducerBatch:
        """The batch that has the record, as its last one."""
        size = RECORD_OVERHEAD_SIZE
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        if headers:
            size += headers_size(headers)
        batch = queue.filling
        if batch is None or batch.size + size > self._batch_size_max:
            batch = self._begin(queue, timestamp_ms)
        batch.size += size
        self.buffered_size += size
        batch.append(key, value, headers, timestamp_ms)
        return batch

    def _begin(self, queue: PartitionQueue, timestamp_ms: int) -> ProducerBatch:
        queue.close()
        batch = queue.filling = ProducerBatch(queue.partition, timestamp_ms)
        self.buffered_size += batch.size
        self._active[queue.partition] = queue
        if self.transaction is not None:
            self.transaction.touch(queue.partition)
        self._begun.append(batch)
        self.has_news = True
        return batch

    # Sending

    @property
    def wants_producer_id(self) -> bool:
        """Whether nothing can be sent before a producer id is given."""
        return self.settings.is_idempotent and self.producer == NO_PRODUCER

    def adopt(self, producer: ProducerIdAndEpoch) -> None:
        self.producer = producer
        for queue in self._queues.values():
            if queue.producer == NO_PRODUCER:
                queue.producer = producer
        self.has_news = True

    def drain(self, now_ms: float) -> Work:
        """The requests to be sent now, in this order to each broker."""
        self.now_ms = now_ms
        self.has_news = False
        for batch in self._begun:
            batch.ripe_at_ms = now_ms + self.settings.linger_ms
            batch.deadline_ms = now_ms + self.settings.delivery_timeout_ms
        self._begun.clear()
        self._expire(now_ms)
        if self.fatal or self.wants_producer_id or self._is_held():
            return Work([], self._next_deadline_ms())
        open_requests: dict[int, tuple[list[ProducerBatch], int]] = {}
        wake_at_ms = self._next_deadline_ms()
        for queue in list(self._active.values()):
            self._mend(queue)
            front = queue.front(now_ms) if self._may_write(queue) else None
            if front is None or not self._join(open_requests, queue, front):
                wake_at_ms = sooner(wake_at_ms, queue.wakes_at_ms(), now_ms)
        requests = []
        for node_id, (batches, _) in open_requests.items():
            self._in_flight_counts[node_id] = self._in_flight_counts.get(node_id, 0) + 1
            requests.append(Request(node_id, batches))
            # A further batch of these partitions may be ready for the next request, in which
            # the others have their turn first.
            self.has_news = True
            for batch in batches:
                self._active[batch.partition] = self._active.pop(batch.partition)
        return Work(requests, wake_at_ms)

    def _is_held(self) -> bool:
        return self.transaction is not None and not self.transaction.may_send

    def _may_write(self, queue: PartitionQueue) -> bool:
        return self.transaction is None or self.transaction.may_write_to(queue.partition)

    def _join(
        self,
        requests: dict[int, tuple[list[ProducerBatch], int]],
        queue: PartitionQueue,
        batch: ProducerBatch,
    ) -> bool:
        node_id = self.leaders.get(queue.partition)
        if node_id is None:
            self.wants_leaders = True
            return False
        if self.wants_leaders and batch.attempts:
            # Whoever has not taken it may lead no more: it would be waited for in vain again.
            return False
        if self._in_flight_counts.get(node_id, 0) >= self.settings.in_flight_max:
            return False
        batches, size = requests.get(node_id, ([], 0))
        if batches and size + batch.size > self.settings.request_size_max:
            return False
        queue.take(batch)
        if self.transaction is not None:
            self.transaction.is_begun = True
        batches.append(batch)
        requests[node_id] = (batches, size + batch.size)
        return True

    def _mend(self, queue: PartitionQueue) -> None:
        """Give a broken queue its new epoch, once the fate of each of its batches is known."""
        if not queue.is_broken or self.transaction is not None or not queue.is_resolved:
            return
        # The producer id is this producer's own, so that it may count its epoch up itself.
        producer_id, epoch = self.producer
        if epoch + 1 >= EPOCH_MAX:
            self.producer = NO_PRODUCER
            queue.restart(NO_PRODUCER)
        else:
            self.producer = ProducerIdAndEpoch(producer_id, epoch + 1)
            queue.restart(self.producer)
        if queue.is_idle:
            del self._active[queue.partition]

    # Answers

    def answered(self, request: Request, answers: Sequence[BatchAnswer], now_ms: float) -> None:
        """The broker's word on each batch of the request."""
        self._ended(request, now_ms)
        for batch, answer in zip(request.batches, answers, strict=True):
            if answer.error is None or isinstance(answer.error, DuplicateSequence):
                self._acknowledged(batch, answer)
            else:
                self._refused(batch, answer.error, answer.log_start_offset)

    def lost(self, request: Request, error: RequestError, now_ms: float) -> None:
        """No answer will come: the batches may be stored or not."""
        self._ended(request, now_ms)
        self.wants_leaders = True
        for batch in request.batches:
            self._refused(batch, error, -1)

    def _ended(self, request: Request, now_ms: float) -> None:
        self.now_ms = now_ms
        self.has_news = True
        self._in_flight_counts[request.node_id] -= 1

    def _acknowledged(self, batch: ProducerBatch, answer: BatchAnswer) -> None:
        queue = self._queues[batch.partition]
        queue.acknowledge(batch)
        batch.base_offset = answer.base_offset
        batch.log_append_time_ms = answer.log_append_time_ms
        queue.last_acknowledged_offset = max(
            queue.last_acknowledged_offset, answer.base_offset + batch.record_count - 1
        )
        self._settle(batch, None)

    def _refused(self, batch: ProducerBatch, error: RequestError, log_start_offset: int) -> None:
        queue = self._queues[batch.partition]
        batch.refusal = error
        # For good: what a lost connection has swallowed may still arrive.
        batch.may_be_stored = batch.may_be_stored or outcome.may_be_stored(error)
        if self._is_to_go_again(queue, batch, error, log_start_offset):
            queue.send_again(batch)
        else:
            self._give_up(queue, batch, error)

    def _is_to_go_again(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: RequestError,
        log_start_offset: int,
    ) -> bool:
        if self.transaction is not None and not self.transaction.may_send:
            return False
        if isinstance(error, OutOfOrderSequence) and self.settings.is_idempotent:
            return not batch.may_be_stored if queue.is_broken else not batch.was_next
        if isinstance(error, UnknownProducerId) and self.transaction is None:
            # The broker forgot this producer when the last of its records was deleted.
            is_forgotten = log_start_offset < 0 or log_start_offset > queue.last_acknowledged_offset
            queue.is_broken = queue.is_broken or is_forgotten
            return is_forgotten and not batch.may_be_stored
        if outcome.kind_from_leader(error) is not ErrorKind.RETRY:
            return False
        self.wants_leaders = True
        pause_ms = self.settings.backoff_first_ms * 2 ** min(batch.attempts - 1, 10)
        queue.not_before_ms = self.now_ms + min(pause_ms, self.settings.backoff_max_ms)
        return self.now_ms < batch.deadline_ms

    def _give_up(self, queue: PartitionQueue, batch: ProducerBatch, error: Exception) -> None:
        queue.give_up(batch)
        self._settle(batch, error)
        if isinstance(error, RequestError) and outcome.kind_from_leader(error) is ErrorKind.FATAL:
            self.fail(error)
        elif self.transaction is not None:
            self.doom(error)

    def doom(self, error: Exception) -> None:
        """The transaction can only be aborted, so that nothing more of it is sent."""
        assert self.transaction is not None, "only a transaction is aborted"
        self.transaction.fail(error, is_fatal=False)
        self.drop(error)

    def _settle(self, batch: ProducerBatch, error: Exception | None) -> None:
        if error is not None and self.transaction is None:
            # Before the error, which another thread may look at as soon as it is there.
            batch.failure = self.failures.note(error, batch.record_count)
        batch.error = error
        batch.is_done = True
        batch.content = None
        batch.plain = bytearray()
        self.buffered_size -= batch.size
        self.settled.append(batch)
        if self._queues[batch.partition].is_idle and not self._queues[batch.partition].is_broken:
            self._active.pop(batch.partition, None)

    # Time, and the end

    def _expire(self, now_ms: float) -> None:
        for queue in list(self._active.values()):
            oldest = queue.oldest_waiting()
            while oldest is not None and oldest.deadline_ms <= now_ms:
                self._give_up(queue, oldest, self._too_late(oldest))
                oldest = queue.oldest_waiting()

    def _too_late(self, batch: ProducerBatch) -> RequestTimedOut:
        sentence = f"{batch.partition}: not stored within {self.settings.delivery_timeout_ms} ms"
        if batch.refusal is None:
            return RequestTimedOut(sentence)
        reason = str(batch.refusal).removeprefix(f"{batch.partition}: ")
        error = RequestTimedOut(f"{sentence}; the last attempt: {reason}")
        error.__cause__ = batch.refusal
        return error

    def _next_deadline_ms(self) -> float | None:
        waiting = (queue.oldest_waiting() for queue in self._active.values())
        return min((batch.deadline_ms for batch in waiting if batch), default=None)

    def close_batches(self) -> list[ProducerBatch]:
        """Let everything be sent at once; all batches that are not done."""
        for queue in self._active.values():
            queue.close()
        self.has_news = True
        return [batch for queue in self._active.values() for batch in queue.batches()]

    def in_flight(self) -> list[ProducerBatch]:
        return [batch for queue in self._active.values() for batch in queue.in_flight]

    def drop(self, error: Exception, *, with_in_flight: bool = False) -> None:
        """Give up all batches; of those under way the answers are still waited for."""
        for queue in list(self._active.values()):
            for batch in list(queue.batches()):
                if with_in_flight or batch not in queue.in_flight:
                    queue.give_up(batch)
                    self._settle(batch, error)

    def fail(self, error: Exception) -> None:
        """Nothing can be sent any more."""
        if self.fatal is None:
            self.fatal = error
            self.has_news = True
            if self.transaction is not None:
                self.transaction.fail(error, is_fatal=True)
            self.drop(error)

    def restart(self, producer: ProducerIdAndEpoch) -> None:
        """All partitions begin anew at sequence 0: the transaction that ended had its own epoch."""
        self.producer = producer
        for queue in self._queues.values():
            queue.restart(producer, is_recognised=self._are_starts_checked)
        self._active = {
            partition: each for partition, each in self._active.items() if not each.is_idle
        }

    def is_out_of_sequence(self) -> bool:
        """Whether a partition needs a new epoch before it can be written to again."""
        return any(queue.is_broken for queue in self._queues.values())

    def learn_topic_id(self, topic: str, topic_id: bytes) -> None:
        """One that was replaced never comes back: who still says so has not heard of it."""
        known = self.topic_ids.get(topic)
        if topic_id in (NO_ID, known) or topic_id in self._replaced_ids:
            return
        self.topic_ids[topic] = topic_id
        if known is not None:
            self._replaced_ids.add(known)
            self._remade(topic)

    def _remade(self, topic: str) -> None:
        """What a transaction has in the topic that is gone is lost, so that it cannot be whole.

        Without one, what is left goes to the new topic, whose partitions do not know the producer.
        """
        queues = [queue for queue in self._queues.values() if queue.partition.topic == topic]
        for queue in queues:
            queue.is_recognised = self._are_starts_checked
            queue.last_acknowledged_offset = -1
        transaction = self.transaction
        is_torn = any(queue.has_sent for queue in queues)
        if is_torn and transaction is not None and transaction.may_send:
            self.doom(TopicRemade(topic))

    def learn_leaders(self, leaders: Iterable[tuple[TopicPartition, int | None]]) -> None:
        for partition, node_id in leaders:
            if node_id is None:
                self.leaders.pop(partition, None)
            else:
                self.leaders[partition] = node_id
        self.wants_leaders = False
        self.has_news = True
