"""A batch as it comes in with a Produce request: found its partition, checked, not yet decided."""

from typing import TYPE_CHECKING

from semel.errors import InvalidTopic, MessageTooLarge, RequestError, UnknownTopicOrPartition
from semel.lane.lane import Lane
from semel.lane.producing import Incoming, NotRemembered, StampedIncoming
from semel.records import batch as record_batch
from semel.records.batch import NO_TIMESTAMP_MS
from semel.types import Offset
from semel.wire.messages.produce import PartitionProduceData, PartitionProduceResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker


Missed = tuple[PartitionProduceResponse, Incoming, NotRemembered]
"""A refusal that stands unless the log has the original."""


def look_at(broker: "Broker", topic_name: str, data: PartitionProduceData) -> tuple[Lane, Incoming]:
    """Find the partition and check the batch. Raises the refusal that the producer gets."""
    topic = broker.catalogue.get(topic_name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {topic_name!r}")
    lane = broker.lane_in(topic, data.index)
    partition = lane.view.partition(topic_name, data.index)
    if topic.is_internal:
        raise InvalidTopic(f"clients may not write to {topic_name!r}")
    batch = memoryview(data.records or b"")
    limit = topic.batch_size_max or broker.config.message_max_bytes
    if len(batch) > limit:
        raise MessageTooLarge(f"the batch has {len(batch)} bytes, more than {limit}")
    header = record_batch.admit(batch)
    if topic.is_log_append_time:
        return lane, StampedIncoming(partition, header, batch)
    return lane, Incoming(partition, header, header.checksum, batch)


def accepted(
    incoming: Incoming, base_offset: Offset, appended_at_ms: int = NO_TIMESTAMP_MS
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        incoming.partition.topic_partition.partition,
        0,
        base_offset,
        appended_at_ms if incoming.is_stamped else NO_TIMESTAMP_MS,
        incoming.partition.log_start_offset,
    )


def refused(data: PartitionProduceData, refusal: RequestError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        data.index, refusal.code, -1, error_message=str(refusal) or None
    )
