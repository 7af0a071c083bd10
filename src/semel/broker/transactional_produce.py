"""Produce inside a transaction: the coordinator is asked first, then each partition.

Under TV2 a partition joins the transaction in the frame of its first batch. Under TV1 it must
have been added before.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Call
from semel.broker.incoming import Incoming, Missed, look_at
from semel.broker.transactional import dialect, in_words_of, refuse_if_late
from semel.errors import (
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    JournalFull,
    RequestError,
    StorageError,
)
from semel.lane.claims import Claim
from semel.lane.draft import Draft
from semel.lane.frame import ENTRY_SIZE
from semel.lane.transaction_steps import TransactionStep, prepare
from semel.log.producers import NotRemembered, SequenceReused
from semel.transactions.commands import Doom, WriteRecords
from semel.transactions.dialect import Dialect
from semel.types import Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionalId
from semel.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

Result = Offset | RequestError


def produce_in_transaction(
    broker: "Broker", request: ProduceRequest, call: Call
) -> tuple[ProduceResponse, RequestError | None, list[Missed]]:
    """The response, one of the refusals in it if there are any, and what the log must tell."""
    write = _Write(broker, TransactionalId(request.transactional_id or ""), call)
    for topic in request.topic_data:
        for data in topic.partition_data:
            write.look_at(topic.name, data)
    write.decide()
    responses = [
        TopicProduceResponse(
            topic.name, [write.response(topic.name, data) for data in topic.partition_data]
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses), write.refusal, write.missed


class _Write:
    """One request: what came in, and what became of it by partition."""

    def __init__(self, broker: "Broker", transactional_id: TransactionalId, call: Call) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._call = call
        self._dialect = dialect(call)
        self._incoming: dict[TopicPartition, Incoming] = {}
        self._results: dict[TopicPartition, Result] = {}
        self.refusal: RequestError | None = None
        self.missed: list[Missed] = []

    def look_at(self, topic: str, data: PartitionProduceData) -> None:
        try:
            incoming = look_at(self._broker, topic, data)
            key = incoming.partition.topic_partition
            if key in self._incoming:
                raise InvalidRequest(f"{key} is named twice in one request")
            if not incoming.header.is_transactional:
                raise InvalidTransactionState("a plain batch came with a transactional id")
            self._incoming[key] = incoming
        except RequestError as error:
            key = TopicPartition(topic, data.index)
            self._incoming.pop(key, None)
            self._refuse(key, error)

    def decide(self) -> None:
        if not self._incoming:
            return
        headers = [incoming.header for incoming in self._incoming.values()]
        producer_id = ProducerId(headers[0].producer_id)
        epoch = ProducerEpoch(headers[0].producer_epoch)
        refuse_if_late(self._broker, self._call, self._transactional_id, producer_id, epoch)
        try:
            if len({(header.producer_id, header.producer_epoch) for header in headers}) > 1:
                raise InvalidProducerIdMapping("batches of several producers in one request")
            # The epoch is checked before anything else about the transaction.
            step = self._prepare_writing(producer_id, epoch, list(self._incoming))
            self._admit(producer_id, epoch)
            fresh = [key for key in self._incoming if key not in self._results]
            if 0 < len(fresh) < len(self._incoming):
                step = self._prepare_writing(producer_id, epoch, fresh)
            if fresh:
                self._append(step, fresh)
        except JournalFull as error:
            for key, incoming in self._incoming.items():
                if key not in self._results:
                    incoming.partition.found_no_room(incoming.header)
            self._refuse_rest(StorageError(str(error)))
        except RequestError as error:
            self._refuse_rest(error)

    def response(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        key = TopicPartition(topic, data.index)
        result = self._results[key]
        if isinstance(result, RequestError):
            refused = PartitionProduceResponse(
                data.index, result.code, -1, error_message=str(result) or None
            )
            if isinstance(result, NotRemembered):
                self.missed.append((refused, self._incoming[key], result))
            return refused
        return self._incoming[key].accepted(result)

    def _prepare_writing(
        self, producer_id: ProducerId, epoch: ProducerEpoch, keys: list[TopicPartition]
    ) -> TransactionStep:
        return self._prepare(WriteRecords(producer_id, epoch, frozenset(keys), self._dialect))

    def _prepare(self, command: WriteRecords | Doom) -> TransactionStep:
        lane = self._broker.lane
        current = lane.state.transactions.get(self._transactional_id)
        return prepare(lane, current, command, lane.clock.moment())

    def _admit(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        """Tell retries and refusals from new batches, partition by partition."""
        for key, incoming in self._incoming.items():
            try:
                original = incoming.partition.admit(
                    incoming.header,
                    incoming.fingerprint,
                    begins_at_zero=self._dialect is Dialect.TV2,
                )
            except SequenceReused as reuse:
                self._refuse(key, self._doom(producer_id, epoch) or reuse)
            except RequestError as error:
                self._refuse(key, error)
            else:
                if original is not None:
                    self._broker.metrics.batches_duplicate += 1
                    self._results[key] = original

    def _append(self, step: TransactionStep, keys: list[TopicPartition]) -> None:
        """The batches and what becomes of the transaction by them, in one frame if they fit."""
        broker = self._broker
        draft: Draft | None = None
        room = 0
        for place, key in enumerate(keys):
            incoming = self._incoming[key]
            size = ENTRY_SIZE + len(incoming.batch)
            if draft is None or size > room:
                if draft is not None:
                    draft.append()
                rest = (len(self._incoming[each].batch) for each in keys[place:])
                wanted = sum(rest) + ENTRY_SIZE * (len(keys) - place)
                room = max(size, min(wanted, broker.frame_size_max))
                is_first = place == 0
                if is_first:
                    draft = broker.lane.draft(room + step.size, owed_change=step.owed_change)
                    step.add_to(draft)
                else:
                    draft = broker.lane.draft(room)
            room -= size
            broker.metrics.bytes_in += len(incoming.batch)
            self._results[key] = draft.add_batch(
                incoming.partition, incoming.header, incoming.fingerprint, incoming.batch
            )
        if draft is not None:
            draft.append()

    def _doom(self, producer_id: ProducerId, epoch: ProducerEpoch) -> RequestError | None:
        """Nobody knows which records were meant: let the transaction never be committed."""
        step = self._prepare(Doom(producer_id, epoch))
        draft = self._broker.lane.draft(step.size, Claim.ENDING)
        step.add_to(draft)
        draft.append()
        return step.decision.refusal

    def _refuse(self, key: TopicPartition, error: RequestError) -> None:
        self.refusal = self._broker.metrics.counted(in_words_of(self._call, error))
        self._results[key] = self.refusal
        self._broker.metrics.batches_refused += 1

    def _refuse_rest(self, error: RequestError) -> None:
        for key in self._incoming:
            if key not in self._results:
                self._refuse(key, error)
