"""A broker to talk to, and commands that talk to it."""

import pytest

from semel.cli.main import main
from semel.testing import Broker
from support.command_line import Run


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
