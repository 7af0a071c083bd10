"""Draws a story as messages between its four parties, one line each, time going down."""

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from semel.cli.moment import time_in_words
from semel.cli.output import say
from semel.cli.story import Event

_LANES = ("PRODUCER", "COORDINATOR", "TXN LOG", "DATA LOGS")
_WIDTH = 12
_TIME_WIDTH = len("12:00:00.000")
_GAP = "  "
_FLOWS = {"a": (0, 1), "b": (1, 2), "c": (0, 3), "d": (1, 3)}
_STYLES = {"a": "cyan", "b": "yellow", "c": "green", "d": "magenta"}


class _Line(NamedTuple):
    time: str
    before: str
    arrow: str
    after: str
    words: str
    style: str


def say_lanes(events: Iterable[Event]) -> None:
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
