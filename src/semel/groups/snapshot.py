"""All that lasts of the groups of a lane, as one value that a checkpoint can hold."""

import msgspec

from semel.groups.records import GenerationRecorded, OffsetCommitted
from semel.types import NO_PRODUCER_ID, ProducerId


class OffsetInSnapshot(msgspec.Struct, frozen=True, gc=False):
    record: OffsetCommitted
    order: int
    producer_id: ProducerId = NO_PRODUCER_ID
    """Set while the offset is pending in this producer's transaction."""
    stored_ms: int | None = None
    """None in a checkpoint that knows one time alone."""


class GroupsSnapshot(msgspec.Struct, frozen=True):
    generations: tuple[GenerationRecorded, ...] = ()
    offsets: tuple[OffsetInSnapshot, ...] = ()
    order: int = 0
    generations_ms: tuple[int, ...] | None = None
    """When each generation was recorded; None in a checkpoint that knows one time alone."""
