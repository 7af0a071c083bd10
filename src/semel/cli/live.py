"""The view of a running application: a live table, plain lines for a pipe, or JSON.

What it logs is shown beside: above the table, or on standard error.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from semel.app.progress import Counts
from semel.app.running import RunningApp
from semel.cli.output import note, note_json, say, say_json
from semel.spelling import noun

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Watcher = Callable[[RunningApp], Awaitable[None]]

_LINE_INTERVAL_S = 1.0
_TABLE_INTERVAL_S = 0.25
_RATE_SPAN_S = 1.0
_COLUMNS = (
    "listener",
    "state",
    "records/s",
    "records",
    "lag",
    "committed",
    "aborted",
    "retries",
    "dead",
    "partitions",
)

_STYLES = {
    "working": "green",
    "backing off": "yellow",
    "paused": "bold yellow",
    "waiting for the cluster": "yellow",
    "failed": "bold red",
}
_PARTITIONS_SHOWN_MAX = 8
_LOG_STYLES = {logging.ERROR: "red", logging.WARNING: "yellow"}


def watcher(*, as_json: bool, quiet: bool) -> Watcher:
    if quiet:
        return RunningApp.until_ended
    if as_json:
        return _watch_in_json
    return _watch_in_table if sys.stdout.isatty() else _watch_in_lines


def is_in_table(*, as_json: bool, quiet: bool) -> bool:
    return watcher(as_json=as_json, quiet=quiet) is _watch_in_table


@cache
def terminal() -> "Console":
    """Where the table lives: what else is printed here comes above it."""
    from rich.console import Console

    return Console()


class Rates:
    """Records per second of each listener, over about the last second."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, dict[str, int]]] = []

    def look(self, counts: dict[str, Counts], now_s: float) -> dict[str, int]:
        current = {name: each.records for name, each in counts.items()}
        self._seen.append((now_s, current))
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - _RATE_SPAN_S:
            del self._seen[0]
        then_s, before = self._seen[0]
        span_s = now_s - then_s
        return {
            name: round((count - before[name]) / span_s) if span_s else 0
            for name, count in current.items()
        }


class Line(NamedTuple):
    """How one listener gets on."""

    listener: str
    state: str
    records_per_s: int
    records: int
    lag: int
    transactions_committed: int
    transactions_aborted: int
    retries: int
    dead_letters: int
    partitions: list[str]
    trouble: str | None


def lines_of(counts: dict[str, Counts], rates: dict[str, int]) -> list[Line]:
    return [
        Line(
            name,
            each.state.value,
            rates[name],
            each.records,
            each.lag,
            each.transactions_committed,
            each.transactions_aborted,
            each.retries,
            each.dead_letters,
            [str(partition) for partition in sorted(each.partitions)],
            each.trouble,
        )
        for name, each in counts.items()
    ]


async def _watch(run: RunningApp, interval_s: float, show: Callable[[list[Line]], None]) -> None:
    """Show how things stand at every interval, and at the end."""
    loop = asyncio.get_running_loop()
    rates = Rates()
    is_ended = False
    while not is_ended:
        try:
            async with asyncio.timeout(interval_s):
                await run.until_ended()
            is_ended = True
        except TimeoutError:
            pass
        counts = run.counts()
        show(lines_of(counts, rates.look(counts, loop.time())))


async def _watch_in_json(run: RunningApp) -> None:
    def show(lines: list[Line]) -> None:
        say_json({"listeners": [line._asdict() for line in lines]})
        sys.stdout.flush()

    await _watch(run, _LINE_INTERVAL_S, show)


async def _watch_in_lines(run: RunningApp) -> None:
    shown: dict[str, Line] = {}

    def show(lines: list[Line]) -> None:
        for line in lines:
            # Nobody wants a log that says every second that nothing happens.
            if shown.get(line.listener) != line:
                shown[line.listener] = line
                say(sentence(line))
        sys.stdout.flush()

    await _watch(run, _LINE_INTERVAL_S, show)


def sentence(line: Line) -> str:
    parts = [
        f"{line.listener}: {line.state}",
        f"{line.records} {noun(line.records, 'record')} ({line.records_per_s}/s)",
        f"lag {line.lag}",
        f"{line.transactions_committed} committed",
        f"{line.transactions_aborted} aborted",
    ]
    if line.retries:
        parts.append(f"{line.retries} {noun(line.retries, 'retry', 'retries')}")
    if line.dead_letters:
        parts.append(f"{line.dead_letters} {noun(line.dead_letters, 'dead letter')}")
    parts.append(f"{len(line.partitions)} {noun(len(line.partitions), 'partition')}")
    if line.trouble:
        parts.append(line.trouble)
    return ", ".join(parts)


async def _watch_in_table(run: RunningApp) -> None:
    from rich.live import Live

    with Live(table([]), console=terminal(), auto_refresh=False) as live:
        await _watch(run, _TABLE_INTERVAL_S, lambda lines: live.update(table(lines), refresh=True))


def table(lines: list[Line]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, header_style="bold cyan", pad_edge=False)
    for column in _COLUMNS:
        is_text = column in ("listener", "state", "partitions")
        shown.add_column(column, justify="left" if is_text else "right", overflow="fold")
    for line in lines:
        style = _STYLES.get(line.state, "")
        cells = (f"{number:,}" for number in line[2:9])
        shown.add_row(
            line.listener, Text(line.state, style), *cells, Text(_partitions(line.partitions))
        )
        if line.trouble:
            shown.add_row("", Text(line.trouble, "yellow"))
    return shown


def _partitions(partitions: list[str]) -> str:
    if len(partitions) > _PARTITIONS_SHOWN_MAX:
        return f"{len(partitions)} partitions"
    return " ".join(partitions) or "-"


@contextmanager
def shown_log(*, as_json: bool, quiet: bool) -> Iterator[None]:
    """Show what Semel logs, unless the application has set up a log of its own for it."""
    logger = logging.getLogger("semel")
    if logger.hasHandlers():
        yield
        return
    shown: logging.Handler = _OnStandardError()
    if as_json:
        shown = _AsJson()
    elif is_in_table(as_json=as_json, quiet=quiet):
        shown = _AboveTable()
    logger.addHandler(shown)
    try:
        yield
    finally:
        logger.removeHandler(shown)


class _OnStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


class _AsJson(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = getattr(record, "fields", {})
        line = {"level": record.levelname.lower(), "message": record.getMessage()}
        note_json({**line, **fields})


class _AboveTable(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        style = _LOG_STYLES.get(record.levelno, "")
        terminal().print(Text(self.format(record), style), soft_wrap=True)
