"""Records that are gone before they were read: refused, or passed over with a word in the log."""

import logging
from collections.abc import Collection, Iterable, Mapping

from semel.errors import SemelError
from semel.spark.offsets import OffsetRange, Offsets
from semel.types import TopicPartition

_log = logging.getLogger(__name__)


class DataLoss(SemelError):
    """Offsets that the query has yet to read do not exist any more."""


def report(reason: str, *, fails: bool) -> None:
    if fails:
        raise DataLoss(
            f"{reason}; they are lost to this query. Set failOnDataLoss to false to go on "
            f"without them"
        )
    _log.warning("%s; the query goes on without them", reason)


def deleted_partitions(start: Offsets, deleted: Collection[TopicPartition]) -> str:
    """A sentence on partitions that the query was reading and that do not exist any more."""
    return f"partitions were deleted with what was unread in them: {_read_up_to(start, deleted)}"


def remade_topic(topic: str, start: Offsets) -> str:
    """A sentence on a topic that is another one than the query was reading."""
    read = _read_up_to(start, [partition for partition in start if partition.topic == topic])
    return (
        f"topic {topic} was deleted and created again, and the records are gone that were unread "
        f"in the first one: {read}"
    )


def remade_within_a_batch(wanted: OffsetRange) -> str:
    """A sentence on a topic that was another one when this range was planned."""
    partition, start, end = wanted
    return (
        f"topic {partition.topic} was deleted and created again, and with it the records of "
        f"{partition} from offset {start} to {end - 1}, which this micro-batch was to read"
    )


def _read_up_to(start: Offsets, partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(
        f"{partition} (read up to offset {start[partition]})" for partition in sorted(partitions)
    )


def readable_range(
    wanted: OffsetRange, earliest: Mapping[TopicPartition, int]
) -> tuple[OffsetRange, str | None]:
    """What is left of a range, and a sentence on what is not."""
    partition, start, end = wanted
    first = earliest[partition]
    if end < start:
        return (
            OffsetRange(partition, min(first, end), end),
            f"{partition} ends at offset {end}, before {start} where the query was to go on: "
            f"the topic was created anew and its old records were deleted, unless startingOffsets "
            f"lies behind the end",
        )
    if first > start:
        left = OffsetRange(partition, min(first, end), end)
        return (
            left,
            f"the records of {partition} from offset {start} to {left.start - 1} were deleted "
            f"before they were read",
        )
    return wanted, None
