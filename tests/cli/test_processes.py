"""The command line as a process: signals, broken pipes, and what a broker imports."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.main import main
from semel.testing import Broker

SEMEL = [sys.executable, "-m", "semel"]


@pytest.fixture(scope="module")
def topic(semel_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A topic with more records than a pipe holds."""
    file: Path = tmp_path_factory.mktemp("many") / "in"
    file.write_text("".join(f"record {number}\n" for number in range(20_000)))
    servers = semel_broker.bootstrap_servers
    assert main(["topic", "create", "cli-many", "-p", "1", "-b", servers]) == 0
    assert main(["produce", "cli-many", str(file), "-b", servers]) == 0
    return "cli-many"


def started(broker: Broker, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*SEMEL, *arguments, "-b", broker.bootstrap_servers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_interrupted_follower_ends_quietly(semel_broker: Broker, topic: str) -> None:
    with started(semel_broker, "consume", topic) as process:
        assert process.stdout is not None
        for number in range(20_000):
            assert process.stdout.readline() == f"record {number}\n"
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)
        assert (rest, err, process.returncode) == ("", "", 130)


def test_a_follower_from_the_end_gets_what_comes(semel_broker: Broker, tmp_path: Path) -> None:
    servers = semel_broker.bootstrap_servers
    (old := tmp_path / "old").write_text("old\n")
    (new := tmp_path / "new").write_text("".join(f"{number}\n" for number in range(50)))
    assert main(["topic", "create", "cli-tail", "-p", "3", "-b", servers]) == 0
    assert main(["produce", "cli-tail", str(old), "-b", servers]) == 0
    with started(semel_broker, "consume", "cli-tail", "-o", "end", "-n", "50") as process:
        # Its start cannot be seen, so that it is given something until it has seen enough.
        while process.poll() is None:
            assert main(["produce", "cli-tail", str(new), "-b", servers]) == 0
        out, err = process.communicate(timeout=60)
        assert (len(out.splitlines()), err, process.returncode) == (50, "", 0)
        assert set(out.splitlines()) <= {str(number) for number in range(50)}


def test_a_follower_of_a_topic_that_is_deleted_says_so(
    semel_broker: Broker, tmp_path: Path
) -> None:
    servers = semel_broker.bootstrap_servers
    (file := tmp_path / "in").write_text("record\n")
    assert main(["topic", "create", "cli-doomed", "-p", "1", "-b", servers]) == 0
    assert main(["produce", "cli-doomed", str(file), "-b", servers]) == 0
    with started(semel_broker, "consume", "cli-doomed", "--timeout-ms", "500") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "record\n"
        assert main(["topic", "delete", "cli-doomed", "-b", servers]) == 0
        _, err = process.communicate(timeout=60)
        assert "cli-doomed" in err
        assert process.returncode == 1


def test_an_interrupted_producer_keeps_what_it_said_it_sent(
    semel_broker: Broker, topic: str
) -> None:
    with started(semel_broker, "produce", "cli-typed", "--create", "--json") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("typed\n")
        process.stdin.flush()
        assert '"offset": 0' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (err, process.returncode) == ("", 130)


def test_a_reader_that_goes_away_is_no_reason_to_complain(semel_broker: Broker, topic: str) -> None:
    with started(semel_broker, "consume", topic, "-e") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "record 0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


def test_serving_does_not_import_what_only_the_other_commands_need() -> None:
    program = (
        "import sys; from semel.cli.main import main\n"
        "assert main(['serve', '--nonsense']) == 2\n"
        "import semel.broker.main\n"
        "heavy = {'cyclopts', 'semel.client', 'prometheus_client'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_serve_has_help_of_its_own() -> None:
    done = subprocess.run([*SEMEL, "serve", "--help"], capture_output=True, text=True, check=True)
    for option in ("listen", "advertise", "data", "ephemeral", "config", "set", "metrics"):
        assert f"--{option}" in done.stdout
