"""Produce (api key 0), versions 3-12.

v8  errors carry a message
v9  flexible encoding

All batches of a request are decided and appended in one step. acks=all is answered when they are
durable, acks=1 when the kernel has them, acks=0 never. A retry is answered with the offset of its
original, and waits for it as the original does.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import (
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTopic,
    InvalidTransactionState,
    JournalFull,
    MessageTooLarge,
    ProtocolError,
    RequestError,
    StorageError,
    UnknownTopicOrPartition,
)
from semel.lane.draft import Draft
from semel.lane.frame import ENTRY_SIZE
from semel.records import batch as record_batch
from semel.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

ACKS_ALL, ACKS_NONE, ACKS_ONE = -1, 0, 1


def produce(broker: "Broker", request: ProduceRequest, call: Call) -> Answer:
    if request.acks not in (ACKS_ALL, ACKS_NONE, ACKS_ONE):
        refusal = InvalidRequiredAcks(f"acks={request.acks}: must be -1, 0 or 1")
        return Answer(_refuse_all(request, refusal))
    writer = _Writer(broker, request)
    response = ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                [writer.write(topic.name, partition) for partition in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
    writer.finish()
    if request.acks == ACKS_NONE:
        if writer.refusal is not None:
            # Closing the connection is all that a client hears who asked for no reply.
            raise ProtocolError(f"produce with acks=0 refused: {writer.refusal!r}")
        return Answer(None)
    return Answer(response, broker.lane.journal.end, durable=request.acks == ACKS_ALL)


class _Writer:
    """Puts the batches of one request into one frame, or each into its own if that is too long."""

    __slots__ = ("_broker", "_draft", "_full", "_is_one_frame", "refusal")

    def __init__(self, broker: "Broker", request: ProduceRequest) -> None:
        self._broker = broker
        self._draft: Draft | None = None
        self._full: StorageError | None = None
        self.refusal: RequestError | None = None
        size = 0
        for topic in request.topic_data:
            for partition in topic.partition_data:
                size += ENTRY_SIZE + len(partition.records or b"")
        self._is_one_frame = size <= broker.frame_size_max
        if self._is_one_frame:
            self._begin(size)

    def _begin(self, size: int) -> None:
        try:
            self._draft = self._broker.lane.draft(size)
        except JournalFull as error:
            self._full = StorageError(str(error))

    def finish(self) -> None:
        if self._draft is not None:
            self._draft.append()
            self._draft = None

    def write(self, topic_name: str, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            return self._write(topic_name, data)
        except RequestError as error:
            self.refusal = error
            self._broker.metrics.batches_refused += 1
            return PartitionProduceResponse(
                data.index, error.code, -1, error_message=str(error) or None
            )

    def _write(self, topic_name: str, data: PartitionProduceData) -> PartitionProduceResponse:
        broker = self._broker
        topic = broker.lane.state.topics.get(topic_name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {topic_name!r}")
        partition = topic.partition(data.index)
        if partition is None:
            raise UnknownTopicOrPartition(f"topic {topic_name!r} has no partition {data.index}")
        if topic.is_internal:
            raise InvalidTopic(f"clients may not write to {topic_name!r}")
        batch = memoryview(data.records or b"")
        limit = topic.batch_size_max or broker.config.message_max_bytes
        if len(batch) > limit:
            raise MessageTooLarge(f"the batch has {len(batch)} bytes, more than {limit}")
        header = record_batch.admit(batch)
        if header.is_transactional:
            raise InvalidTransactionState("transactions are not served")
        fingerprint = header.checksum
        log_append_time_ms = -1
        if topic.is_log_append_time:
            log_append_time_ms = broker.lane.clock.now_ms()
            batch, fingerprint = _stamped(batch, log_append_time_ms)
            header = record_batch.read(batch)
        original = partition.admit(header, fingerprint)
        if original is not None:
            broker.metrics.batches_duplicate += 1
            return PartitionProduceResponse(
                data.index, 0, original, log_append_time_ms, partition.log_start_offset
            )
        if not self._is_one_frame:
            self.finish()
            self._begin(ENTRY_SIZE + len(batch))
        if self._draft is None:
            raise self._full or InvalidRequest("no frame was begun")
        base_offset = self._draft.add_batch(partition, header, fingerprint, batch)
        broker.metrics.bytes_in += len(batch)
        return PartitionProduceResponse(
            data.index, 0, base_offset, log_append_time_ms, partition.log_start_offset
        )


def _stamped(batch: memoryview, now_ms: int) -> tuple[memoryview, int]:
    stamped = memoryview(record_batch.with_log_append_time(batch, now_ms))
    return stamped, record_batch.records_checksum(stamped)


def _refuse_all(request: ProduceRequest, refusal: RequestError) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                [
                    PartitionProduceResponse(
                        partition.index, refusal.code, -1, error_message=str(refusal)
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
