"""`semel topic delete-records`: let the partitions of a topic begin later."""

from collections.abc import Collection, Mapping
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from semel.cli.arguments import (
    DEFAULT_TARGET,
    PartitionNumbers,
    Target,
    choose_partitions,
    parse_partition_numbers,
    tell_matches,
)
from semel.cli.output import note, say_json, say_table
from semel.cli.place import END, Place, PlaceKind, check_is_not_behind_end, offsets_of, parse_place
from semel.client.admin import topics
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import beginnings_of
from semel.errors import RequestError
from semel.types import TopicPartition
from semel.world import SystemClock


def delete_records(
    name: Annotated[
        str,
        Parameter(
            help="Which topic; a name that begins with ^ is a regular expression for names, and"
            " all topics that match are shortened."
        ),
    ],
    /,
    *,
    before: Annotated[
        str,
        Parameter(
            help="Where the topic shall begin then: an offset, end, +N, -N or @TIME.",
            allow_leading_hyphen=True,
        ),
    ],
    partitions: PartitionNumbers = (),
    target: Target = DEFAULT_TARGET,
) -> int:
    """Delete the oldest records of a topic, for good.

    `--before @-7d` deletes what is older than a week, `--before -1000` all but the last 1,000
    offsets of each partition, `--before end` everything.
    """
    place = parse_place(before, SystemClock().wall_ms())
    numbers = parse_partition_numbers(partitions)

    async def work(cluster: Cluster) -> list[_Shortened]:
        wanted = await choose_partitions(cluster, [name], numbers)
        # A cluster would shorten some partitions, and leave those that end before.
        await check_is_not_behind_end(cluster, place, wanted, "deleted")
        tell_matches([name], wanted)
        offsets = await _offsets_to_delete_before(cluster, place, wanted)
        prior = await beginnings_of(cluster, wanted)
        outcomes = await topics.delete_records_before(cluster, offsets)
        return [_Shortened(each, prior[each], outcomes[each]) for each in wanted]

    return _say_shortened(target.run(work), as_json=target.as_json)


class _Shortened(NamedTuple):
    partition: TopicPartition
    prior_start: int
    outcome: int | RequestError

    @property
    def start(self) -> int | None:
        return None if isinstance(self.outcome, RequestError) else self.outcome

    @property
    def error(self) -> str | None:
        return str(self.outcome) if isinstance(self.outcome, RequestError) else None


async def _offsets_to_delete_before(
    cluster: Cluster, place: Place, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    # An offset is sent as it is: one behind the end is a mistake, and must not delete everything.
    if place.kind == PlaceKind.OFFSET:
        return dict.fromkeys(partitions, place.number)
    if place == END:
        return dict.fromkeys(partitions, topics.END_OF_LOG)
    return await offsets_of(cluster, place, partitions)


def _say_shortened(shortened: list[_Shortened], *, as_json: bool) -> int:
    if as_json:
        names = ("topic", "partition", "prior_start", "start", "error")
        rows = [(*one.partition, one.prior_start, one.start, one.error) for one in shortened]
        say_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        done = [one for one in shortened if one.start is not None]
        if done:
            say_table(
                ("TOPIC", "PARTITION", "PRIOR-START", "START"),
                [(*one.partition, one.prior_start, one.start) for one in done],
            )
        for one in shortened:
            if one.error is not None:
                note(one.error)
    return int(any(one.error is not None for one in shortened))
