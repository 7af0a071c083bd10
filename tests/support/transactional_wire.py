"""A transactional producer by hand, in both dialects, and a reader under both isolation levels.

It does one thing per call and hides nothing: a test decides what is sent, on which connection, in
which order, and with which epoch and sequence.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from semel.records.batch import split
from semel.records.control import decode_marker
from semel.records.records import Record, decode_batch, encode_batch
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.raw_client import Listening, RawClient, decoded_reply, encoded, request_frame

TIMESTAMP_MS = 1_000
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
EARLIEST = -2
TIMEOUT_MS = 60_000


class Versions(NamedTuple):
    """What a client of one dialect asks for."""

    init: int
    produce: int
    add_partitions: int
    add_offsets: int
    commit_offsets: int
    end: int


TV1 = Versions(init=4, produce=11, add_partitions=3, add_offsets=3, commit_offsets=4, end=4)
TV2 = Versions(init=5, produce=12, add_partitions=3, add_offsets=4, commit_offsets=5, end=5)
OLDEST = Versions(init=0, produce=3, add_partitions=0, add_offsets=0, commit_offsets=0, end=0)


class WireProducer:
    def __init__(
        self,
        broker: Listening,
        transactional_id: str,
        versions: Versions = TV2,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._broker = broker
        self.transactional_id = transactional_id
        self.versions = versions
        self.timeout_ms = timeout_ms
        self.client = RawClient(broker)
        self._old_clients: list[RawClient] = []
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for client in (self.client, *self._old_clients):
            client.__exit__(kind, error, trace)

    def reconnect(self) -> RawClient:
        """Go on with a new connection; gives the old one, which stays open."""
        old, self.client = self.client, RawClient(self._broker)
        self._old_clients.append(old)
        return old

    def init(self, *, named: bool = False) -> int:
        """A new incarnation, or the next epoch of the one there is; the error code."""
        identity = (self.producer_id, self.epoch) if named else (-1, -1)
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms, *identity)
        answer = self.client.call("init_producer_id", self.versions.init, request)
        if answer.error_code == 0:
            self.adopt(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def adopt(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def add(self, topic: str, *partitions: int) -> list[int]:
        return self.add_many({topic: partitions})

    def add_many(self, partitions: Mapping[str, Sequence[int]]) -> list[int]:
        answer = self.client.call(
            "add_partitions_to_txn", self.versions.add_partitions, self.add_request(partitions)
        )
        return [
            result.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]

    def add_request(self, partitions: Mapping[str, Sequence[int]]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            self.transactional_id,
            self.producer_id,
            self.epoch,
            [
                AddPartitionsToTxnTopic(topic, list(indexes))
                for topic, indexes in partitions.items()
            ],
        )

    def produce(
        self, topic: str, *values: bytes, partition: int = 0, sequence: int | None = None
    ) -> Any:
        """The answer for the partition. Without a sequence, the next one is used and counted."""
        key = (topic, partition)
        first = self._sequences.get(key, 0) if sequence is None else sequence
        request = self.produce_request(topic, values, partition=partition, sequence=first)
        answer = self.client.call("produce", self.versions.produce, request)
        (found,) = answer.responses[0].partition_responses
        if found.error_code == 0 and sequence is None:
            self._sequences[key] = first + len(values)
        return found

    def produce_request(
        self, topic: str, values: Sequence[bytes], *, partition: int = 0, sequence: int = 0
    ) -> ProduceRequest:
        batch = self.batch(values, sequence)
        data = TopicProduceData(topic, [PartitionProduceData(partition, batch)])
        return ProduceRequest(self.transactional_id, -1, 30_000, [data])

    def batch(
        self, values: Sequence[bytes], sequence: int = 0, *, is_transactional: bool = True
    ) -> bytes:
        return encode_batch(
            [Record(None, value, TIMESTAMP_MS) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )

    def add_offsets(self, group: str) -> int:
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        answer = self.client.call("add_offsets_to_txn", self.versions.add_offsets, request)
        return int(answer.error_code)

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        generation: int = -1,
        member: str = "",
    ) -> list[int]:
        topics = [
            TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(partition, offset)])
            for (topic, partition), offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group,
            self.producer_id,
            self.epoch,
            generation,
            member,
            topics=topics,
        )
        answer = self.client.call("txn_offset_commit", self.versions.commit_offsets, request)
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    def end(self, *, commit: bool) -> int:
        """The error code; with TV2 the next epoch is taken from the answer."""
        answer = self.client.call("end_txn", self.versions.end, self.end_request(commit=commit))
        if answer.error_code == 0 and self.versions.end >= TV2.end:
            self.adopt(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)

    def commit(self) -> int:
        return self.end(commit=True)

    def abort(self) -> int:
        return self.end(commit=False)

    def write(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Produce as the dialect does it, adding the partition first if need be; the offset."""
        if self.versions.produce < TV2.produce:
            assert self.add(topic, partition) == [0]
        answer = self.produce(topic, *values, partition=partition)
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        return int(answer.base_offset)


def frame(module: str, version: int, request: Any) -> bytes:
    """The request as bytes, to be sent when the test wishes."""
    return request_frame(module, version, encoded(module, version, request))


def answer_to(client: RawClient, module: str, version: int) -> Any:
    """The answer to a request that was sent as a frame; None if the broker closed instead."""
    reply = client.receive()
    return None if reply is None else decoded_reply(module, version, reply)


class Fetched(NamedTuple):
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]] | None
    """Producer id and first offset, in the order of the answer."""
    raw: bytes

    @property
    def values(self) -> list[bytes | None]:
        """Every record, also of aborted transactions; no markers."""
        return [
            record.value
            for header, batch in split(self.raw)
            if not header.is_control
            for record in decode_batch(batch)
        ]

    @property
    def markers(self) -> list[tuple[int, int, str]]:
        """Offset, producer id and kind."""
        found = []
        for header, batch in split(self.raw):
            if header.is_control:
                marker = decode_marker(batch)
                assert marker is not None
                found.append((marker.offset, marker.producer_id, marker.type.name))
        return found

    @property
    def committed_values(self) -> list[bytes | None]:
        """What a read_committed consumer shows, by the rules of the protocol alone."""
        values: list[bytes | None] = []
        waiting = sorted(self.aborted or [], key=lambda each: each[1])
        aborting: set[int] = set()
        for header, batch in split(self.raw):
            while waiting and waiting[0][1] <= header.last_offset:
                aborting.add(waiting.pop(0)[0])
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                values += [record.value for record in decode_batch(batch)]
        return values


def fetch(
    client: RawClient,
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    isolation: int = READ_COMMITTED,
    max_wait_ms: int = 0,
    max_bytes: int = 2**20,
) -> Fetched:
    wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        topics=[FetchTopic(topic, [wanted])],
    )
    ((found,),) = [topic.partitions for topic in client.call("fetch", 12, request).responses]
    assert found.error_code == 0, found.error_code
    aborted = found.aborted_transactions
    return Fetched(
        found.high_watermark,
        found.last_stable_offset,
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        bytes(found.records or b""),
    )


def list_offset(
    client: RawClient, topic: str, isolation: int, *, timestamp_ms: int = -1, partition: int = 0
) -> int:
    wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=timestamp_ms)])
    request = ListOffsetsRequest(-1, isolation, [wanted])
    ((found,),) = [each.partitions for each in client.call("list_offsets", 7, request).topics]
    assert found.error_code == 0
    return int(found.offset)


def committed_offset(
    client: RawClient, group: str, topic: str, *, partition: int = 0, require_stable: bool = False
) -> tuple[int, int]:
    """The offset and the error code."""
    wanted = [OffsetFetchRequestTopic(topic, [partition])]
    request = OffsetFetchRequest(group_id=group, topics=wanted, require_stable=require_stable)
    ((found,),) = [each.partitions for each in client.call("offset_fetch", 7, request).topics]
    return int(found.committed_offset), int(found.error_code)
