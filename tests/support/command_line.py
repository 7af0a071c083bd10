"""Running the command line in the process of the test, and reading what it printed."""

from collections.abc import Callable

import pytest

from semel.cli.main import main
from semel.testing import Broker

Run = Callable[..., tuple[int, str, str]]
"""A command to its exit code, output and errors."""


@pytest.fixture
def run(
    semel_broker: Broker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs a command against the broker of the session."""
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", semel_broker.bootstrap_servers)

    def command(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(arguments)
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def eventually(run: Run, *arguments: str, holds: Callable[[str], bool]) -> None:
    """Run a command until its output, with its errors, is as expected.

    Other brokers answer before all of them have heard of a change.
    """
    said = ""
    while not holds(said):
        _, out, err = run(*arguments)
        said = out + err
