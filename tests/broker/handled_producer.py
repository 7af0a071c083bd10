"""A transactional producer of a broker without sockets: a request per call, and its error code."""

from collections.abc import Iterable, Mapping
from typing import Any

from semel.broker.broker import Broker
from semel.records.records import Record, encode_batch
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.handled import call
from support.transactional_wire import TV2, Versions

TIMESTAMP_MS = 1_000


class HandledProducer:
    def __init__(
        self, broker: Broker, transactional_id: str | None, versions: Versions = TV2
    ) -> None:
        self.broker = broker
        self.versions = versions
        self.producer_id = -1
        self.epoch = -1
        self._transactional_id = transactional_id
        self._sequences: dict[tuple[str, int], int] = {}

    async def init(self, timeout_ms: int = 60_000) -> int:
        request = InitProducerIdRequest(self._transactional_id, timeout_ms, -1, -1)
        answer = await call(self.broker, "init_producer_id", self.versions.init, request)
        if answer.error_code == 0:
            self._adopt(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def add(self, topic: str, partitions: Iterable[int]) -> set[int]:
        """The codes of all of them."""
        topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        request = AddPartitionsToTxnRequest(
            self._transactional_id or "", self.producer_id, self.epoch, topics
        )
        version = self.versions.add_partitions
        answer = await call(self.broker, "add_partitions_to_txn", version, request)
        return {
            result.partition_error_code
            for each in answer.results_by_topic_v3_and_below
            for result in each.results_by_partition
        }

    async def produce(self, topic: str, value: bytes, partition: int = 0) -> Any:
        """The answer for the partition."""
        sequence = self._sequences.get((topic, partition), 0)
        batch = encode_batch(
            [Record(None, value, TIMESTAMP_MS)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(topic, [PartitionProduceData(partition, batch)])
        request = ProduceRequest(self._transactional_id, -1, 30_000, [data])
        answer = await call(self.broker, "produce", self.versions.produce, request)
        (found,) = answer.responses[0].partition_responses
        if found.error_code == 0:
            self._sequences[topic, partition] = sequence + 1
        return found

    async def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> set[int]:
        """The codes of all of them."""
        topics = [
            TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(partition, offset)])
            for (topic, partition), offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            self._transactional_id or "", group, self.producer_id, self.epoch, topics=topics
        )
        version = self.versions.commit_offsets
        answer = await call(self.broker, "txn_offset_commit", version, request)
        return {each.error_code for topic in answer.topics for each in topic.partitions}

    async def add_offsets(self, group: str) -> int:
        request = AddOffsetsToTxnRequest(
            self._transactional_id or "", self.producer_id, self.epoch, group
        )
        version = self.versions.add_offsets
        answer = await call(self.broker, "add_offsets_to_txn", version, request)
        return int(answer.error_code)

    async def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(self._transactional_id or "", self.producer_id, self.epoch, commit)
        answer = await call(self.broker, "end_txn", self.versions.end, request)
        if answer.error_code == 0 and self.versions is TV2:
            self._adopt(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def go_back(self) -> None:
        """To the sequences that the aborted transaction began with, under an epoch that stays."""
        self._sequences.clear()

    def _adopt(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences.clear()
