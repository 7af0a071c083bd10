"""Reading partitions up to an offset, by a consumer that has no group."""

from collections.abc import Mapping

from semel import AsyncConsumer
from semel.client.consuming.settings import ConsumerOptions
from semel.records.records import Record
from semel.types import TopicPartition

_POLL_MS = 50
"""What lies before the end may be nothing but markers, which no poll gives a sign of."""


async def read_up_to(
    servers: str, ends: Mapping[TopicPartition, int], isolation: str = "read_uncommitted"
) -> dict[TopicPartition, list[Record]]:
    """All records of these partitions that are before these offsets."""
    options: ConsumerOptions = {"isolation": isolation, "auto_offset_reset": "earliest"}
    found: dict[TopicPartition, list[Record]] = {place: [] for place in ends}
    left = {place for place, end in ends.items() if end}
    async with AsyncConsumer(servers, **options) as consumer:
        while left:
            consumer.assign(left)
            for each in await consumer.poll(_POLL_MS):
                if each.offset < ends[each.place]:
                    record = Record(
                        each.key, each.value, each.timestamp_ms, each.headers, each.offset
                    )
                    found[each.place].append(record)
            left = {place for place in left if await consumer.position(place) < ends[place]}
    return found
