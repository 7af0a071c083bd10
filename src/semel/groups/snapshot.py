"""All that lasts of the groups of a lane, as one value that a checkpoint can hold."""

import msgspec

from semel.groups.records import GenerationRecorded, OffsetCommitted
from semel.types import NO_PRODUCER_ID, ProducerId


class OffsetInSnapshot(msgspec.Struct, frozen=True, gc=False):
    record: OffsetCommitted
    order: int
    producer_id: ProducerId = NO_PRODUCER_ID
    """Set while the offset is pending in this producer's transaction."""


class GroupsSnapshot(msgspec.Struct, frozen=True):
    generations: tuple[GenerationRecorded, ...] = ()
    offsets: tuple[OffsetInSnapshot, ...] = ()
    order: int = 0
