"""A batch as it comes in with a Produce request: looked at, not yet decided."""

from typing import TYPE_CHECKING, Final

from semel.errors import InvalidTopic, MessageTooLarge, UnknownTopicOrPartition
from semel.log.partition import Partition
from semel.log.producers import NotRemembered
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.types import Offset
from semel.wire.messages.produce import PartitionProduceData, PartitionProduceResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker

NO_TIMESTAMP_MS: Final = -1


class Incoming:
    __slots__ = ("batch", "fingerprint", "header", "log_append_time_ms", "partition")

    def __init__(
        self,
        partition: Partition,
        header: BatchHeader,
        fingerprint: int,
        batch: memoryview,
        log_append_time_ms: int = NO_TIMESTAMP_MS,
    ) -> None:
        self.partition = partition
        self.header = header
        self.fingerprint = fingerprint
        self.batch = batch
        self.log_append_time_ms = log_append_time_ms

    def accepted(self, base_offset: Offset) -> PartitionProduceResponse:
        partition = self.partition
        return PartitionProduceResponse(
            partition.topic_partition.partition,
            0,
            base_offset,
            self.log_append_time_ms,
            partition.log_start_offset,
        )


Missed = tuple[PartitionProduceResponse, Incoming, NotRemembered]
"""A refusal that stands unless the log has the original."""


def look_at(broker: "Broker", topic_name: str, data: PartitionProduceData) -> Incoming:
    """Find the partition and check the batch. Raises the refusal that the producer gets."""
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
    if not topic.is_log_append_time:
        return Incoming(partition, header, header.checksum, batch)
    wall_ms = broker.lane.clock.moment().wall_ms
    stamped = memoryview(record_batch.with_log_append_time(batch, wall_ms))
    header = record_batch.read(stamped)
    return Incoming(partition, header, record_batch.fingerprint(header, stamped), stamped, wall_ms)
