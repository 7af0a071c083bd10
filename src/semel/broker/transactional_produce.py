"""Produce inside a transaction: the coordinator is asked first, then each partition.

Under TV2 a partition joins the transaction in the frame of its first batch. Under TV1 it must
have been added before.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Call
from semel.broker.incoming import Missed, accepted, find_topic, look_at, no_room, refused
from semel.broker.transactional import as_version_of, check_lane, dialect, refuse_if_late
from semel.errors import (
    InvalidRequest,
    InvalidTransactionState,
    JournalFull,
    RequestError,
)
from semel.lane.lane import Lane
from semel.lane.producing import ENTRY_SIZE, Incoming, NotRemembered, ProduceInTransaction
from semel.lane.view import TopicView
from semel.records.batch import NO_TIMESTAMP_MS
from semel.types import Offset, TopicPartition, TransactionalId
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
    writing = _Writing(broker, TransactionalId(request.transactional_id or ""), call)
    for topic in request.topic_data:
        found = find_topic(broker, topic.name)
        for data in topic.partition_data:
            writing.look_at(found, topic.name, data)
    writing.submit_all()
    responses = [
        TopicProduceResponse(
            topic.name,
            [writing.response(topic.name, data) for data in topic.partition_data],
            topic.topic_id,
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses), writing.refusal, writing.missed


class _Writing:
    """One request: what came in, and what became of it by partition."""

    __slots__ = (
        "_appended_at_ms",
        "_broker",
        "_call",
        "_incoming",
        "_lane",
        "_results",
        "_transactional_id",
        "missed",
        "refusal",
    )

    def __init__(self, broker: "Broker", transactional_id: TransactionalId, call: Call) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._call = call
        self._lane: Lane | None = None
        self._incoming: dict[TopicPartition, Incoming] = {}
        self._results: dict[TopicPartition, Result] = {}
        self._appended_at_ms: dict[TopicPartition, int] = {}
        self.refusal: RequestError | None = None
        self.missed: list[Missed] = []

    def look_at(
        self, found: TopicView | RequestError, topic: str, data: PartitionProduceData
    ) -> None:
        try:
            if self._lane is None:
                self._lane = self._broker.coordinators.of_transactional_id(self._transactional_id)
            lane, incoming = look_at(self._broker, found, data)
            key = incoming.partition.topic_partition
            if key in self._incoming or key in self._results:
                raise InvalidRequest(f"{key} is named more than once in one request")
            if not incoming.header.is_transactional:
                raise InvalidTransactionState("a plain batch came with a transactional id")
            check_lane(self._lane, lane.number, key)
            self._incoming[key] = incoming
        except RequestError as error:
            key = TopicPartition(topic, data.index)
            self._incoming.pop(key, None)
            self._refuse(key, error)

    def submit_all(self) -> None:
        """Those that fit into one frame together."""
        if not self._incoming:
            return
        first = next(iter(self._incoming.values())).header
        producer = first.producer_id, first.producer_epoch
        refuse_if_late(self._broker, self._call, self._transactional_id, *producer)
        together: list[Incoming] = []
        size = 0
        for incoming in self._incoming.values():
            size += ENTRY_SIZE + len(incoming.batch)
            if together and size > self._broker.frame_size_max:
                self._submit(together)
                together = []
                size = ENTRY_SIZE + len(incoming.batch)
            together.append(incoming)
        self._submit(together)

    def _submit(self, incoming: list[Incoming]) -> None:
        command = ProduceInTransaction(self._transactional_id, dialect(self._call), incoming)
        keys = [each.partition.topic_partition for each in incoming]
        assert self._lane is not None
        try:
            produced = self._lane.submit(command)
        except JournalFull as error:
            for key in keys:
                self._refuse(key, no_room(error))
            return
        except RequestError as error:
            for key in keys:
                self._refuse(key, error)
            return
        metrics = self._broker.metrics
        metrics.bytes_in += produced.byte_count
        metrics.batches_duplicate += len(produced.duplicates)
        for key, each, result in zip(keys, incoming, produced.results, strict=True):
            if isinstance(result, RequestError):
                self._refuse(key, result)
            else:
                self._results[key] = result
                # When the original of a retry was appended is not remembered.
                if each not in produced.duplicates:
                    self._appended_at_ms[key] = produced.appended_at_ms

    def response(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        key = TopicPartition(topic, data.index)
        result = self._results[key]
        if isinstance(result, RequestError):
            response = refused(data, result)
            if isinstance(result, NotRemembered):
                self.missed.append((response, self._incoming[key], result))
            return response
        appended_at_ms = self._appended_at_ms.get(key, NO_TIMESTAMP_MS)
        return accepted(self._incoming[key], result, appended_at_ms)

    def _refuse(self, key: TopicPartition, error: RequestError) -> None:
        self.refusal = self._broker.metrics.counted(as_version_of(self._call, error))
        self._results[key] = self.refusal
        self._broker.metrics.batches_refused += 1
