"""Produce (api key 0), versions 3-12.

v8   errors carry a message; v9  flexible encoding
v12  TV2: partitions join the transaction with their first batch (KIP-890)

All batches of a request are decided and appended in one step. acks=all is answered when they are
durable, acks=1 when the kernel has them, acks=0 never. A retry is answered with the offset of its
original, and waits for it as the original does; one older than what is remembered is looked up
in the log. A batch of a transaction is answered when the
kernel has it, since the commit will make it durable.
"""

from typing import TYPE_CHECKING, Final

from semel.broker.answer import Answer, Call, Handled
from semel.broker.incoming import Missed, look_at
from semel.broker.transactional_produce import produce_in_transaction
from semel.errors import (
    CorruptJournal,
    CorruptMessage,
    InvalidRequiredAcks,
    InvalidTransactionState,
    JournalFull,
    ProtocolError,
    RequestError,
    StorageError,
)
from semel.lane.draft import Draft
from semel.lane.frame import ENTRY_SIZE
from semel.log.producers import NotRemembered
from semel.transactions.verification import check_plain
from semel.types import ProducerId
from semel.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0
ACKS_ONE: Final = 1


def produce(broker: "Broker", request: ProduceRequest, call: Call) -> Handled:
    acks = request.acks
    if acks not in (ACKS_ALL, ACKS_NONE, ACKS_ONE):
        refusal = InvalidRequiredAcks(f"acks={acks}: must be -1, 0 or 1")
        return Answer(_refuse_all(request, refusal))
    if request.transactional_id is None:
        writer = _Writer(broker, request)
        response = writer.write_all(request)
        refused, missed = writer.refusal, writer.missed
        # A refusal may come from what is not yet durable, and must not outlive it.
        durable = acks == ACKS_ALL or refused is not None
    else:
        response, refused, missed = produce_in_transaction(broker, request, call)
        durable = refused is not None
    answer = Answer(response, broker.lane.journal.end, durable=durable)
    if missed:
        return _look_up(broker, answer, missed, acks)
    if acks != ACKS_NONE:
        return answer
    return Answer(None) if refused is None else _unanswered(response)


def _unanswered(response: ProduceResponse) -> Answer:
    """Closing the connection is all that a client hears who asked for no reply."""
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code:
                reason = each.error_message or f"error code {each.error_code}"
                raise ProtocolError(f"produce with acks=0 refused: {reason}")
    return Answer(None)


async def _look_up(broker: "Broker", answer: Answer, missed: list[Missed], acks: int) -> Answer:
    """Turn refusals into the answers of the originals that the log still has."""
    for refused, incoming, error in missed:
        try:
            offset = await broker.lookup.find_original(incoming, error)
        except (CorruptJournal, CorruptMessage, OSError) as damage:
            # Whether it was stored cannot be told; the producer may ask again.
            broker.found_unreadable(incoming.partition.topic_partition, damage)
            refused.error_code = StorageError.code
            refused.error_message = str(damage)
            continue
        if offset is not None:
            broker.metrics.batches_duplicate += 1
            found = incoming.accepted(offset)
            refused.error_code, refused.error_message = 0, None
            refused.base_offset = found.base_offset
            refused.log_append_time_ms = found.log_append_time_ms
            refused.log_start_offset = found.log_start_offset
    return answer if acks != ACKS_NONE else _unanswered(answer.response)


class _Writer:
    """Puts the batches of one request into one frame, or each into its own if that is too long."""

    __slots__ = ("_broker", "_draft", "_full", "_is_one_frame", "missed", "refusal")

    def __init__(self, broker: "Broker", request: ProduceRequest) -> None:
        self._broker = broker
        self._draft: Draft | None = None
        self._full: StorageError | None = None
        self.refusal: RequestError | None = None
        self.missed: list[Missed] = []
        size = 0
        for topic in request.topic_data:
            for partition in topic.partition_data:
                size += ENTRY_SIZE + len(partition.records or b"")
        self._is_one_frame = size <= broker.frame_size_max
        if self._is_one_frame:
            self._begin(size)

    def write_all(self, request: ProduceRequest) -> ProduceResponse:
        response = ProduceResponse(
            [
                TopicProduceResponse(
                    topic.name, [self._write(topic.name, data) for data in topic.partition_data]
                )
                for topic in request.topic_data
            ]
        )
        self._finish()
        return response

    def _begin(self, size: int) -> None:
        try:
            self._draft = self._broker.lane.draft(size)
        except JournalFull as error:
            self._full = StorageError(str(error))

    def _finish(self) -> None:
        if self._draft is not None:
            self._draft.append()
            self._draft = None

    def _write(self, topic_name: str, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            return self._decide(topic_name, data)
        except RequestError as error:
            self.refusal = error
            self._broker.metrics.batches_refused += 1
            return _refuse(data, error)

    def _decide(self, topic_name: str, data: PartitionProduceData) -> PartitionProduceResponse:
        broker = self._broker
        incoming = look_at(broker, topic_name, data)
        partition, header, batch = incoming.partition, incoming.header, incoming.batch
        if header.is_transactional:
            raise InvalidTransactionState("a batch of a transaction came without its id")
        if header.producer_id >= 0:
            check_plain(broker.lane.state.transactions.of_producer(ProducerId(header.producer_id)))
        try:
            original = partition.admit(header, incoming.fingerprint)
        except NotRemembered as error:
            self.refusal = error
            refused = _refuse(data, error)
            self.missed.append((refused, incoming, error))
            return refused
        if original is not None:
            broker.metrics.batches_duplicate += 1
            return incoming.accepted(original)
        if not self._is_one_frame:
            self._finish()
            self._begin(ENTRY_SIZE + len(batch))
        if self._draft is None:
            partition.found_no_room(header)
            assert self._full is not None
            raise self._full
        broker.metrics.bytes_in += len(batch)
        offset = self._draft.add_batch(partition, header, incoming.fingerprint, batch)
        return incoming.accepted(offset)


def _refuse_all(request: ProduceRequest, refusal: RequestError) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name, [_refuse(data, refusal) for data in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )


def _refuse(data: PartitionProduceData, refusal: RequestError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        data.index, refusal.code, -1, error_message=str(refusal) or None
    )
