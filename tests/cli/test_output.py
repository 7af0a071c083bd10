"""Tables for terminals and pipes."""

import sys

import pytest

from semel.cli.output import say_fields, say_heading, say_table

ROWS = [("[bold]x[/bold]", 5, None), ("y", 0, (1, 2))]


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    say_heading("[red]group[/red]")
    say_table(("NAME", "COUNT", "NODES"), ROWS)
    return [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_table_shows_every_cell_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert printed(capsys) == [
        ["[red]group[/red]"],
        ["NAME", "COUNT", "NODES"],
        ["[bold]x[/bold]", "5", "-"],
        ["y", "0", "1,2"],
    ]


def test_a_pipe_gets_long_cells_whole(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(("A", "B"), [("x" * 300, "y" * 300)])
    assert capsys.readouterr().out.splitlines()[1] == "x" * 300 + "  " + "y" * 300


def test_fields_stand_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    say_fields({"a": 1, "longer": None})
    assert capsys.readouterr().out == "a       1\nlonger  -\n"
