"""Which partition of `__consumer_offsets` holds a group, by Kafka's hash."""

from semel.types import GroupId


def partition_for(group_id: GroupId, partition_count: int) -> int:
    """Java's `String.hashCode` over UTF-16 units, without its sign, modulo the count."""
    units = group_id.encode("utf-16-be")
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partition_count
