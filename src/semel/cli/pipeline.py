"""`semel pipeline`: the exactly-once queries of a cluster, how far they are and how fast."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import App, Parameter

from semel.cli.arguments import DEFAULT_TARGET, Target
from semel.cli.numbers import whole_number
from semel.cli.output import (
    Cell,
    note,
    say,
    say_each,
    say_fields,
    say_heading,
    say_json,
    say_table,
)
from semel.cli.pipeline_metrics import LastLook
from semel.cli.times import duration_in_words, moment_in_words
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, GroupIdNotFound, RequestError
from semel.spark.pipelines import Pipeline, find_pipelines
from semel.spelling import hint_at
from semel.status_server import served
from semel.types import TopicPartition
from semel.world import SystemClock

if TYPE_CHECKING:
    from rich.table import Table

app = App(name="pipeline", help="List, describe and watch the exactly-once queries of a cluster.")

_COLUMNS = ("NAME", "BATCH", "ROWS/S", "LAG", "BEHIND", "LAST-COMMIT", "SKIPPED")


class Seen(NamedTuple):
    """A query at one moment, with what could be learnt by looking twice."""

    pipeline: Pipeline
    now_ms: int
    rows_per_s: float | None


@app.command(name="list")
def list_pipelines(*, target: Target = DEFAULT_TARGET) -> int:
    """List all exactly-once queries: batch, rows per second, lag, last commit.

    Rows per second are those of the last batch, since the commit before it. The lag counts offsets
    that the query may read by now; it is behind by the age of the first record that it has not
    written. A query that reads no topics of this cluster has neither.
    """
    seen = _seen(target.run(find_pipelines))
    if target.as_json:
        say_json([_as_json(each) for each in seen])
    else:
        say_table(_COLUMNS, [row(each) for each in seen])
    return 0


@app.command
def describe(name: str, /, *more: str, target: Target = DEFAULT_TARGET) -> int:
    """Show queries by name, id or group: what the last batch wrote, and the lag by partition."""
    seen = _seen(target.run(find_pipelines))
    chosen = [each for wanted in (name, *more) for each in _named(seen, wanted)]
    return say_each(chosen, _say_described, _described_as_json, as_json=target.as_json)


@app.command
def watch(
    *names: str,
    every: Annotated[float, Parameter(help="Seconds between two looks.")] = 1.0,
    count: Annotated[
        int | None,
        Parameter(
            converter=whole_number, help="End after so many looks, instead of when interrupted."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        Parameter(help="HOST:PORT: metrics for Prometheus at /metrics; /healthz and /readyz."),
    ] = None,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Show all queries, or these, live; without a terminal a table, or JSON, for each look.

    With --metrics it shows nothing without a terminal, and outlives that the cluster is away.
    """
    if every <= 0:
        raise ConfigError(f"--every is {every:g}: it has to be more than 0 seconds")
    if count is not None and count < 1:
        raise ConfigError(f"--count is {count}: it has to be at least 1")

    async def work(cluster: Cluster) -> None:
        async with AsyncExitStack() as stack:
            last = None
            if metrics is not None:
                last = LastLook()
                pages = served("--metrics", metrics, last.pages())
                note(f"metrics are at {await stack.enter_async_context(pages)}/metrics")
            say_seen: Callable[[list[Seen]], None]
            if target.as_json:
                say_seen = _say_as_json
            elif sys.stdout.isatty():
                say_seen = stack.enter_context(_shown_live())
            else:
                say_seen = _say_plainly if last is None else _say_nothing
            await _look(cluster, names, every, count, say_seen, last)

    if metrics is None:
        target.run(work)
    else:
        target.run_unconnected(work)
    return 0


@contextmanager
def _shown_live() -> Iterator[Callable[[list[Seen]], None]]:
    from rich.console import Console
    from rich.live import Live

    with Live(table([]), console=Console(), auto_refresh=False) as live:
        yield lambda seen: live.update(table(seen), refresh=True)


async def _look(
    cluster: Cluster,
    names: tuple[str, ...],
    every_s: float,
    count: int | None,
    say_seen: Callable[[list[Seen]], None],
    last: LastLook | None,
) -> None:
    before: dict[str, Seen] = {}
    looks = 0
    while True:
        try:
            seen = [with_rate(each, before) for each in _seen(await find_pipelines(cluster))]
            chosen = [each for name in names for each in _named(seen, name)] if names else seen
        except RequestError as error:
            if last is None:
                raise
            if last.trouble != str(error):
                note(str(error))
            last.trouble = str(error)
        else:
            say_seen(chosen)
            if last is not None:
                last.seen([each.pipeline for each in chosen], SystemClock().wall_ms())
            before = {each.pipeline.group: each for each in seen}
        looks += 1
        if looks == count:
            return
        await asyncio.sleep(every_s)


def _seen(pipelines: list[Pipeline]) -> list[Seen]:
    now_ms = SystemClock().wall_ms()
    return [Seen(each, now_ms, each.rows_per_s) for each in pipelines]


def with_rate(now: Seen, before: dict[str, Seen]) -> Seen:
    """A query that has stood still since the last look writes nothing now."""
    earlier = before.get(now.pipeline.group)
    if earlier is None or earlier.pipeline.marker.batch_id != now.pipeline.marker.batch_id:
        return now
    written = now.pipeline.marker.written
    usual_ms = written.at_ms - written.since_ms
    stands_ms = now.now_ms - written.at_ms
    return now._replace(rows_per_s=0.0) if written.since_ms and stands_ms > usual_ms else now


def _named(seen: list[Seen], name: str) -> list[Seen]:
    if not name:
        raise ConfigError("the name of the query is empty: `semel pipeline list` shows all")
    chosen = [each for each in seen if name in _names(each.pipeline)]
    if not chosen:
        known = [name for each in seen for name in _names(each.pipeline)]
        raise GroupIdNotFound(f"no query is called {name}{hint_at(name, known)}")
    return chosen


def _names(pipeline: Pipeline) -> set[str]:
    return {pipeline.name, pipeline.group, pipeline.offsets_group, pipeline.marker.query_id}


def row(seen: Seen) -> tuple[Cell, ...]:
    pipeline, written = seen.pipeline, seen.pipeline.marker.written
    behind_ms = pipeline.behind_ms(seen.now_ms)
    return (
        pipeline.name,
        pipeline.marker.batch_id,
        None if seen.rows_per_s is None else f"{seen.rows_per_s:.0f}",
        pipeline.lag,
        None if behind_ms is None else duration_in_words(behind_ms),
        _ago(seen.now_ms, written.at_ms),
        written.skipped,
    )


def _ago(now_ms: int, at_ms: int) -> str | None:
    return f"{duration_in_words(max(0, now_ms - at_ms))} ago" if at_ms else None


def table(seen: list[Seen]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, header_style="bold cyan", pad_edge=False)
    for column in _COLUMNS:
        shown.add_column(column, justify="left" if column == "NAME" else "right", overflow="fold")
    for each in seen:
        shown.add_row(*(Text("-" if cell is None else str(cell)) for cell in row(each)))
    return shown


def _say_plainly(seen: list[Seen]) -> None:
    say_table(_COLUMNS, [row(each) for each in seen])
    sys.stdout.flush()


def _say_nothing(seen: list[Seen]) -> None:
    """Whoever asks is shown."""


def _say_as_json(seen: list[Seen]) -> None:
    say_json([_as_json(each) for each in seen])
    sys.stdout.flush()


def _as_json(seen: Seen) -> dict[str, object]:
    pipeline, marker = seen.pipeline, seen.pipeline.marker
    return {
        "name": pipeline.name,
        "query_id": marker.query_id,
        "group": pipeline.group,
        "offsets_group": pipeline.offsets_group,
        "batch": marker.batch_id,
        "run_id": marker.run_id or None,
        "rows_per_s": seen.rows_per_s,
        "lag": pipeline.lag,
        "behind_ms": pipeline.behind_ms(seen.now_ms),
        "committed_at_ms": marker.written.at_ms or None,
        "rows": marker.written.rows,
        "bytes": marker.written.size,
        "took_ms": marker.written.took_ms,
        "skipped": marker.written.skipped,
    }


def _described_as_json(seen: Seen) -> dict[str, object]:
    partitions = [
        {**each._asdict(), "lag": each.lag, "behind_ms": each.behind_ms(seen.now_ms)}
        for each in seen.pipeline.consumed
    ]
    return {**_as_json(seen), "partitions": partitions}


def _say_described(seen: Seen) -> None:
    pipeline, marker = seen.pipeline, seen.pipeline.marker
    written, behind_ms = marker.written, pipeline.behind_ms(seen.now_ms)
    say_heading(pipeline.name)
    fields: dict[str, Cell] = {
        "query": marker.query_id,
        "run": marker.run_id,
        "group": pipeline.group,
        "batch": marker.batch_id,
        "rows": written.rows,
        "bytes": written.size,
        "took": duration_in_words(written.took_ms) if written.at_ms else None,
        "last commit": moment_in_words(written.at_ms) if written.at_ms else None,
        "skipped": written.skipped,
        "lag": pipeline.lag,
        "behind": None if behind_ms is None else duration_in_words(behind_ms),
    }
    if pipeline.offsets_group != pipeline.group:
        fields["consumed as"] = pipeline.offsets_group
    say_fields(fields)
    if pipeline.consumed:
        say("")
        say_table(
            ["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "BEHIND"],
            [
                (
                    *TopicPartition(each.topic, each.partition),
                    each.offset,
                    each.end,
                    each.lag,
                    duration_in_words(each.behind_ms(seen.now_ms)),
                )
                for each in pipeline.consumed
            ],
        )
