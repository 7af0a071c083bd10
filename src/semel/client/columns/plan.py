"""Which offsets a read covers: places and times as users name them, turned into ranges."""

from collections.abc import Collection, Mapping
from datetime import datetime
from numbers import Integral
from typing import NamedTuple

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, as_time_ms, beginnings_of, ends_of, offsets_at
from semel.errors import ConfigError
from semel.types import TopicPartition

Place = str | int | datetime | Mapping[int, int]
"""`earliest`, `latest`, an offset, a time, or an offset for each partition."""

_NAMED = ("earliest", "latest")


class Range(NamedTuple):
    """Offsets of one partition, the end not included."""

    partition: TopicPartition
    start_offset: int
    end_offset: int


def check_place(argument: str, wanted: object) -> None:
    """Refuse what is no place in any topic."""
    if isinstance(wanted, datetime) or (isinstance(wanted, str) and wanted in _NAMED):
        return
    if not isinstance(wanted, Mapping):
        _check_offset(
            argument, wanted, "earliest, latest, an offset, a datetime or a dict of offsets"
        )
        return
    for partition, offset in wanted.items():
        if not isinstance(partition, Integral):
            raise ConfigError(f"{argument} names partition {partition!r}: partitions are integers")
        _check_offset(f"{argument} of partition {partition}", offset, "an offset")


def _check_offset(what: str, offset: object, taken: str) -> None:
    if isinstance(offset, bool) or not isinstance(offset, Integral):
        raise ConfigError(f"{what} is {offset!r}: it has to be {taken}")
    if int(offset) < 0:
        raise ConfigError(f"{what} is {offset}: offsets are not negative")


async def plan(
    cluster: Cluster,
    topic: str,
    start: Place,
    end: Place,
    isolation: Isolation,
    partitions: Collection[int] | None = None,
) -> list[Range]:
    """The ranges to read, in the order of the partitions; empty ones are left out.

    `start` and `end` have passed `check_place`.
    """
    described = (await cluster.topics([topic]))[topic]
    known = [one.partition for one in described.partitions]
    for argument, named in (("partitions", partitions), ("start", start), ("end", end)):
        if isinstance(named, Collection) and not isinstance(named, str):
            _check_known(argument, named, topic, known)
    read = [
        TopicPartition(topic, number)
        for number in known
        if partitions is None or number in partitions
    ]
    # Nobody may see more than this, whatever is asked for.
    bounds = await ends_of(cluster, read, isolation)
    starts = await _resolve(cluster, read, "start", start, bounds, isolation)
    ends = await _resolve(cluster, read, "end", end, bounds, isolation)
    return [
        Range(partition, starts[partition], min(ends[partition], bounds[partition]))
        for partition in read
        if starts[partition] < min(ends[partition], bounds[partition])
    ]


def _check_known(argument: str, named: Collection[int], topic: str, known: Collection[int]) -> None:
    unknown = [partition for partition in named if partition not in known]
    if unknown:
        raise ConfigError(
            f"{argument} names partition {unknown[0]!r}, which topic {topic} does not have: "
            f"it has {len(known)}"
        )


async def _resolve(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    argument: str,
    wanted: Place,
    bounds: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> Mapping[TopicPartition, int]:
    if wanted == "latest":
        return bounds
    if wanted == "earliest":
        return await beginnings_of(cluster, partitions)
    if isinstance(wanted, datetime):
        found = await offsets_at(cluster, dict.fromkeys(partitions, as_time_ms(wanted)), isolation)
        return {partition: bounds[partition] if at < 0 else at for partition, at in found.items()}
    if isinstance(wanted, Mapping):
        missing = [
            partition.partition for partition in partitions if partition.partition not in wanted
        ]
        if missing:
            raise ConfigError(
                f"{argument} has no offset for partition {missing[0]}: "
                f"each partition that is read needs one"
            )
        return {partition: int(wanted[partition.partition]) for partition in partitions}
    return dict.fromkeys(partitions, int(wanted))
