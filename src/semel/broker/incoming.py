"""A batch as it comes in with a Produce request: found its partition, checked, not yet decided."""

from typing import TYPE_CHECKING, Final

from semel.broker.config import DELETE
from semel.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTopic,
    JournalFull,
    MessageTooLarge,
    RequestError,
    RequestTimedOut,
    StorageError,
    StoreBehind,
)
from semel.lane.lane import Lane
from semel.lane.producing import Incoming, NotRemembered, StampedIncoming
from semel.lane.view import TopicView
from semel.records import batch as record_batch
from semel.records.batch import NO_TIMESTAMP_MS, BatchHeader
from semel.records.compression import UnpacksTooLarge
from semel.records.scanning import has_keyless_record
from semel.types import Offset
from semel.wire.messages.produce import PartitionProduceData, PartitionProduceResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker

OPENED_SIZE_MAX: Final = 16 * 2**20
OPENED_RECORDS_MAX: Final = 200_000
"""Bytes and records of a batch for a compacted topic, where its keys are looked at and nobody is
served meanwhile: a few compressed bytes could claim millions. Producers split a batch that is
refused as too large, and real ones are far smaller."""

Missed = tuple[PartitionProduceResponse, Incoming, NotRemembered]
"""A refusal that stands unless the log has the original."""


def find_topic(broker: "Broker", name: str) -> TopicView:
    """Raises what is said of all its partitions."""
    lanes = broker.lanes
    return lanes.catalogue.get(name) or lanes.topic_named(name)


def no_room(error: JournalFull) -> RequestError:
    """What its producer hears, which sends it again."""
    refusal = RequestTimedOut if isinstance(error, StoreBehind) else StorageError
    return refusal(str(error))


def look_at(
    broker: "Broker", topic: TopicView, data: PartitionProduceData
) -> tuple[Lane, Incoming]:
    """Find the partition and check the batch. Raises the refusal that the producer gets."""
    lane, partition = broker.lanes.hosted(topic, data.index)
    if topic.is_internal:
        raise InvalidTopic(f"clients may not write to {topic.name!r}")
    batch = data.records
    if not isinstance(batch, memoryview):
        batch = memoryview(batch or b"")
    limit = topic.batch_size_max or broker.config.message_max_bytes
    if len(batch) > limit:
        raise MessageTooLarge(f"the batch has {len(batch)} bytes, more than {limit}")
    header = record_batch.admit(batch)
    is_compacted = topic.is_compacted
    if is_compacted is None:
        is_compacted = broker.config.log_cleanup_policy != DELETE
    if is_compacted:
        _check_keys(topic.name, header, batch)
    if topic.is_log_append_time:
        return lane, StampedIncoming(partition, header, batch)
    return lane, Incoming(partition, header, header.checksum, batch)


def _check_keys(topic_name: str, header: BatchHeader, batch: memoryview) -> None:
    """Compaction would take a record without key, and could not tell the keys of broken ones."""
    if header.record_count > OPENED_RECORDS_MAX:
        raise MessageTooLarge(
            f"the batch has {header.record_count} records; topic {topic_name!r} is compacted and "
            f"takes at most {OPENED_RECORDS_MAX} in one"
        )
    try:
        is_keyless = has_keyless_record(header, batch, OPENED_SIZE_MAX)
    except UnpacksTooLarge as excess:  # Compiled, one name would be of one type in both cases.
        raise MessageTooLarge(f"topic {topic_name!r} is compacted: {excess}") from excess
    except CorruptMessage as error:
        raise InvalidRecord(f"the records of the batch cannot be read: {error}") from error
    if is_keyless:
        raise InvalidRecord(f"topic {topic_name!r} is compacted: each record needs a key")


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
