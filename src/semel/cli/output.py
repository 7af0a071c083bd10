"""Printing: tables with colour for a terminal, plain columns for a pipe, JSON on demand."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from semel.errors import RequestError

if TYPE_CHECKING:
    from semel.client.admin.configs import ConfigEntry

_Described = TypeVar("_Described")

Cell = str | int | tuple[int, ...] | None

_GAP = "  "
_MISSING = "-"
_HIDDEN = "(hidden)"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    say(json.dumps(value, ensure_ascii=False))


def note(text: str) -> None:
    """One sentence on standard error."""
    sys.stderr.write(f"semel: {text}\n")
    sys.stderr.flush()


def note_json(value: object) -> None:
    """One object in a line of standard error."""
    sys.stderr.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stderr.flush()


def complain(text: str, *, as_json: bool, trace: str = "") -> None:
    """Why a command failed, with the trace of what was not ours, on standard error."""
    if as_json:
        note_json({"error": text, "traceback": trace} if trace else {"error": text})
    else:
        sys.stderr.write(trace)
        note(text)


def in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or '').lower()}"
    return str(error)


def say_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if sys.stdout.isatty():
        _say_coloured(columns, rows)
    else:
        _say_plain(columns, rows)


def say_fields(fields: Mapping[str, Cell]) -> None:
    """One name and value per line."""
    width = max(map(len, fields))
    for name, value in fields.items():
        say(f"{name:<{width}}{_GAP}{_text(value)}")


def say_configs(entries: Sequence["ConfigEntry"], *, tells_read_only: bool = False) -> None:
    """Settings with where their values come from."""
    columns: tuple[str, ...] = ("SETTING", "VALUE", "SOURCE")
    rows: list[tuple[Cell, ...]] = [
        (entry.name, _HIDDEN if entry.is_sensitive else entry.value, entry.source.name)
        for entry in entries
    ]
    if tells_read_only:
        columns += ("READ-ONLY",)
        read_only = ["yes" if entry.is_read_only else "no" for entry in entries]
        rows = [(*row, each) for row, each in zip(rows, read_only, strict=True)]
    say_table(columns, rows)


def say_heading(text: str) -> None:
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(text, style="bold"))
    else:
        say(text)


def say_each(
    described: Iterable[_Described],
    in_words: Callable[[_Described], None],
    in_json: Callable[[_Described], object],
    *,
    as_json: bool,
) -> int:
    """One description after the other, an empty line between them, or a list of all; the exit
    code is 0."""
    if as_json:
        say_json([in_json(one) for one in described])
    else:
        for number, one in enumerate(described):
            if number:
                say("")
            in_words(one)
    return 0


def say_outcomes(
    subject: str, outcomes: Mapping[str, RequestError | None], done: str, *, as_json: bool
) -> int:
    """What became of each subject; the exit code is 1 if any was refused."""
    if as_json:
        say_json(
            [
                {subject: name, "error": str(error) if error else None}
                for name, error in outcomes.items()
            ]
        )
    else:
        for name, error in outcomes.items():
            if error is None:
                say(f"{done} {subject} {name}")
            else:
                note(str(error))
    return int(any(outcomes.values()))


def _text(cell: Cell) -> str:
    text = (
        ",".join(map(str, cell)) if isinstance(cell, tuple) else "" if cell is None else str(cell)
    )
    return text or _MISSING


def _say_plain(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    lines = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        say(_GAP.join(padded).rstrip())


def _say_coloured(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold cyan", pad_edge=False)
    for index, column in enumerate(columns):
        is_number = any(isinstance(row[index], int) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        # As Text, since a plain string with brackets would be taken for markup.
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(table)


def progress(deed: str, done: int, total: int | None = None) -> None:
    """Bytes, shown to who watches, in a line that is written over."""
    if sys.stderr.isatty():
        of_all = "" if total is None else f" of {total >> 20:,}"
        sys.stderr.write(f"\r{deed} {done >> 20:,}{of_all} MiB\x1b[K\r")
        sys.stderr.flush()
