"""Running the command line in the process of the test, and reading what it printed."""

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]
"""A command to its exit code, output and errors."""


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]
