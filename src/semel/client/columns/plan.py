"""Which offsets a read covers: places and times as users name them, turned into ranges."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from semel.client.cluster import Cluster
from semel.client.offsets import Isolation, as_time_ms, beginnings_of, ends_of, offsets_at
from semel.errors import ConfigError
from semel.types import TopicPartition

Place = str | int | datetime | Mapping[int, int]
"""`earliest`, `latest`, an offset, a time, or an offset for each partition."""


class Range(NamedTuple):
    """Offsets of one partition, the end not included."""

    partition: TopicPartition
    start_offset: int
    end_offset: int


async def plan(
    cluster: Cluster,
    topic: str,
    start: Place,
    end: Place,
    isolation: Isolation,
    partitions: Collection[int] | None = None,
) -> list[Range]:
    """The ranges to read, in the order of the partitions; empty ones are left out."""
    described = (await cluster.topics([topic]))[topic]
    places = [
        TopicPartition(topic, one.partition)
        for one in described.partitions
        if partitions is None or one.partition in partitions
    ]
    # Nobody may see more than this, whatever is asked for.
    bounds = await ends_of(cluster, places, isolation)
    starts = await _resolve(cluster, places, start, bounds, isolation)
    ends = await _resolve(cluster, places, end, bounds, isolation)
    return [
        Range(place, starts[place], min(ends[place], bounds[place]))
        for place in places
        if starts[place] < min(ends[place], bounds[place])
    ]


async def _resolve(
    cluster: Cluster,
    places: Collection[TopicPartition],
    wanted: Place,
    bounds: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> Mapping[TopicPartition, int]:
    if wanted == "latest":
        return bounds
    if wanted == "earliest":
        return await beginnings_of(cluster, places)
    if isinstance(wanted, datetime):
        found = await offsets_at(cluster, dict.fromkeys(places, as_time_ms(wanted)), isolation)
        return {place: bounds[place] if at < 0 else at for place, at in found.items()}
    if isinstance(wanted, int):
        return dict.fromkeys(places, wanted)
    if isinstance(wanted, Mapping):
        missing = [place.partition for place in places if place.partition not in wanted]
        if missing:
            raise ConfigError(f"no offset is given for partition {missing[0]}")
        return {place: wanted[place.partition] for place in places}
    raise ConfigError(f"{wanted!r} is no place in a topic: take earliest, latest or an offset")
