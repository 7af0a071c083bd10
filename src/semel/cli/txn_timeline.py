"""`semel txn timeline`: what happened to the last transactions of an id."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from semel.cli.matching import with_traces
from semel.cli.moment import moment_in_words
from semel.cli.output import say_heading, say_json
from semel.cli.story import Event, Story, events_of, stories_of
from semel.cli.swimlanes import say_lanes
from semel.cli.target import DEFAULT_TARGET, Target
from semel.client.admin.transaction_history import TransactionTrace, last_values, traces_in
from semel.client.admin.transactions import active_producers
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import ends_of, offsets_at
from semel.errors import ConfigError
from semel.types import TopicPartition

_MARGIN_MS = 10_000
"""Records carry the time of the producer, whose clock is not the coordinator's."""


def timeline(
    transactional_id: str,
    /,
    *,
    count: Annotated[
        int, Parameter(name=["-n", "--count"], help="How many transactions to look back.")
    ] = 5,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Draw what happened to the last transactions of an id, with times in UTC.

    (a) the producer asks its coordinator, (b) the coordinator notes it in the transaction log,
    (c) the producer writes data, (d) the coordinator marks where the transaction ended.
    """
    if count < 1:
        raise ConfigError("--count must be at least 1")

    async def work(cluster: Cluster) -> list[Story]:
        values = await last_values(cluster, transactional_id, count)
        stories = stories_of(values)[-count:]
        return with_traces(stories, await _traces(cluster, stories))

    stories = target.run(work)
    if target.as_json:
        say_json([_as_json(story) for story in stories])
    else:
        for story in stories:
            say_heading(f"{moment_in_words(story.values[0].written_at_ms)}  {story.title}")
            say_lanes(events_of(story))
    return 0


async def _traces(
    cluster: Cluster, stories: Sequence[Story]
) -> dict[TopicPartition, list[TransactionTrace]]:
    producer_ids = frozenset(
        stored.value.producer_id for story in stories for stored in story.values
    )
    partitions = frozenset().union(*(story.partitions for story in stories))
    there = sorted(await cluster.existing(partitions))
    starts, stops = await _range(cluster, stories, there, producer_ids)
    return {
        place: await traces_in(cluster, place, producer_ids, starts[place], stops[place])
        for place in there
    }


async def _range(
    cluster: Cluster,
    stories: Sequence[Story],
    places: Sequence[TopicPartition],
    producer_ids: frozenset[int],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to look in each partition: around the times of the transactions that took part."""
    begins_ms: dict[TopicPartition, int] = {}
    ends_ms: dict[TopicPartition, int] = {}
    for place in places:
        here = [story for story in stories if place in story.partitions]
        begins_ms[place] = min(story.started_at_ms for story in here) - _MARGIN_MS
        if all(story.ended for story in here):
            ends_ms[place] = here[-1].values[-1].written_at_ms + _MARGIN_MS
    starts = await ends_of(cluster, places)
    stops = starts | _found(await offsets_at(cluster, ends_ms))
    starts = starts | _found(await offsets_at(cluster, begins_ms))
    for producer in await active_producers(cluster, places):
        if producer.producer_id in producer_ids and producer.first_offset is not None:
            place = producer.partition
            starts[place] = min(starts[place], producer.first_offset)
    return starts, stops


def _found(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Without the partitions that have nothing so young."""
    return {place: offset for place, offset in offsets.items() if offset >= 0}


def _as_json(story: Story) -> dict[str, object]:
    return {
        "outcome": story.outcome,
        "started_at_ms": story.started_at_ms,
        "events": [_event_as_json(event) for event in events_of(story)],
    }


def _event_as_json(event: Event) -> dict[str, object]:
    partition = event.partition
    return {
        "flow": event.flow,
        "at_ms": event.at_ms,
        "what": event.what,
        "topic": partition.topic if partition else None,
        "partition": partition.partition if partition else None,
        "first_offset": event.first_offset,
        "last_offset": event.last_offset,
        "text": event.words,
    }
