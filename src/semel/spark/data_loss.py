"""Records that are gone before they were read: refused, or passed over with a word in the log."""

import logging
from collections.abc import Mapping

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


def gone_partitions(start: Offsets, existing: Offsets) -> str | None:
    """A sentence on the partitions that the query was reading and that do not exist any more."""
    gone = sorted(set(start) - set(existing))
    if not gone:
        return None
    names = ", ".join(f"{partition} (read up to offset {start[partition]})" for partition in gone)
    return f"records were deleted with their partitions {names}"


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
