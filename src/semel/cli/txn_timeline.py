"""`semel txn timeline`: what happened to the last transactions of an id."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from semel.cli.arguments import DEFAULT_TARGET, Target
from semel.cli.numbers import whole_number
from semel.cli.output import say, say_each, say_heading
from semel.cli.story import Event, Story, events_of, stories_of, with_traces
from semel.cli.times import moment_in_words, time_in_words
from semel.client.admin.transaction_history import TransactionTrace, last_values, traces_in
from semel.client.admin.transactions import active_producers
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import ends_of, offsets_at
from semel.errors import ConfigError
from semel.transactions.transaction import NO_TERM
from semel.types import TopicPartition

_MARGIN_MS = 10_000
"""Records carry the time of the producer, whose clock is not the coordinator's."""

_LANES = ("PRODUCER", "COORDINATOR", "TXN LOG", "DATA LOGS")
_WIDTH = 12
_TIME_WIDTH = len("12:00:00.000")
_GAP = "  "
_FLOWS = {"a": (0, 1), "b": (1, 2), "c": (0, 3), "d": (1, 3)}
_STYLES = {"a": "cyan", "b": "yellow", "c": "green", "d": "magenta"}


def timeline(
    transactional_id: str,
    /,
    *,
    count: Annotated[
        int,
        Parameter(
            converter=whole_number,
            name=["-n", "--count"],
            help="How many transactions to look back.",
        ),
    ] = 5,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Draw what happened to the last transactions of an id, with times in UTC.

    (a) the producer asks its coordinator, (b) the coordinator notes it in the transaction log,
    (c) the producer writes data, (d) the coordinator marks where the transaction ended. Over
    several lanes, (b) tells which has joined in which term, and how they voted.
    """
    if count < 1:
        raise ConfigError("--count must be at least 1")

    async def work(cluster: Cluster) -> list[Story]:
        values = await last_values(cluster, transactional_id, count)
        stories = stories_of(values)[-count:]
        return with_traces(stories, await _traces(cluster, stories))

    stories = target.run(work)
    return say_each(stories, _say_story, _as_json, as_json=target.as_json)


def _say_story(story: Story) -> None:
    say_heading(f"{moment_in_words(story.values[0].written_at_ms)}  {story.title}")
    say_lanes(events_of(story))


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
        partition: await traces_in(
            cluster, partition, producer_ids, starts[partition], stops[partition]
        )
        for partition in there
    }


async def _range(
    cluster: Cluster,
    stories: Sequence[Story],
    partitions: Sequence[TopicPartition],
    producer_ids: frozenset[int],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to look in each partition: around the times of the transactions that took part."""
    begins_ms: dict[TopicPartition, int] = {}
    ends_ms: dict[TopicPartition, int] = {}
    for partition in partitions:
        here = [story for story in stories if partition in story.partitions]
        begins_ms[partition] = min(story.started_at_ms for story in here) - _MARGIN_MS
        if all(story.ended for story in here):
            ends_ms[partition] = here[-1].values[-1].written_at_ms + _MARGIN_MS
    starts = await ends_of(cluster, partitions)
    stops = starts | _found(await offsets_at(cluster, ends_ms))
    starts = starts | _found(await offsets_at(cluster, begins_ms))
    for producer in await active_producers(cluster, partitions):
        if producer.producer_id in producer_ids and producer.first_offset is not None:
            partition = producer.partition
            starts[partition] = min(starts[partition], producer.first_offset)
    return starts, stops


def _found(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Without the partitions that have nothing so young."""
    return {partition: offset for partition, offset in offsets.items() if offset >= 0}


def _as_json(story: Story) -> dict[str, object]:
    """The coordinator, where others took part; no term of those that nothing was written to."""
    key = story.key
    return {
        "outcome": story.outcome,
        "started_at_ms": story.started_at_ms,
        "coordinator": None if key is None else {"lane": key.lane, "term": key.term},
        "lanes": [
            {"lane": lane, "term": None if term == NO_TERM else term} for lane, term in story.lanes
        ],
        "vote": story.vote,
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


class _Line(NamedTuple):
    time: str
    before: str
    arrow: str
    after: str
    words: str
    style: str


def say_lanes(events: Iterable[Event]) -> None:
    """As messages between the four parties, one line each, time going down."""
    header = "".join(name.ljust(_WIDTH) for name in _LANES).rstrip()
    indent = " " * (_TIME_WIDTH + len(_GAP))
    if sys.stdout.isatty():
        _say_coloured(indent + header, _lines(events))
    else:
        say(indent + header)
        for line in _lines(events):
            drawn = line.before + line.arrow + line.after
            say(_GAP.join((line.time, drawn, line.words)))


def _lines(events: Iterable[Event]) -> Iterator[_Line]:
    for event in events:
        start, stop = _FLOWS[event.flow]
        arrow = f"├─({event.flow})".ljust((stop - start) * _WIDTH - 1, "─") + "▶"
        yield _Line(
            "".ljust(_TIME_WIDTH) if event.at_ms is None else time_in_words(event.at_ms),
            "│".ljust(_WIDTH) * start,
            arrow,
            "│".ljust(_WIDTH) * (len(_LANES) - 1 - stop) + "│",
            event.words,
            _STYLES[event.flow],
        )


def _say_coloured(header: str, lines: Iterable[_Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(header, style="bold cyan"), soft_wrap=True)
    for line in lines:
        console.print(
            Text.assemble(
                (line.time + _GAP, "dim"),
                (line.before, "dim"),
                (line.arrow, line.style),
                (line.after + _GAP, "dim"),
                line.words,
            ),
            soft_wrap=True,
        )
