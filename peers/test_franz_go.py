"""franz-go's transactional session: consume, produce and commit offsets as one."""

import subprocess
from pathlib import Path

import pytest
from peers.registry import ROOT, go_program

from semel.testing import Broker
from support.command_line import Run

TIMEOUT_S = 120
COUNT = 2000


@pytest.fixture(scope="session")
def program() -> Path:
    return go_program(ROOT / "peers" / "go")


@pytest.fixture
def values(run: Run, tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    """What the input topic holds, which is named after the test."""
    name = request.node.name
    values = [f"record {number:05}" for number in range(COUNT)]
    (tmp_path / "in").write_text("".join(f"{value}\n" for value in values))
    assert run("topic", "create", name, f"{name}-out", "-p", "4")[0] == 0
    assert run("produce", name, str(tmp_path / "in"))[0] == 0
    return values


def started(
    program: Path, broker: Broker, topic: str, transactional_id: str
) -> "subprocess.Popen[str]":
    command = [str(program), broker.bootstrap_servers, topic, f"{topic}-out", transactional_id]
    return subprocess.Popen(
        [*command, str(COUNT)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(client: "subprocess.Popen[str]") -> tuple[list[str], list[str]]:
    """The values it read, and how its transactions ended."""
    out, err = client.communicate(timeout=TIMEOUT_S)
    assert (client.returncode, err) == (0, "")
    facts = [line.split(" ", 1) for line in out.splitlines()]
    return (
        [fact for name, fact in facts if name == "value"],
        [fact for name, fact in facts if name == "committed"],
    )


def test_every_record_comes_out_once(
    program: Path, semel_broker: Broker, values: list[str], run: Run
) -> None:
    topic = "test_every_record_comes_out_once"
    with started(program, semel_broker, topic, topic) as client:
        found, ends = finished(client)
    assert found == values
    assert set(ends) == {"true", "false"}
    _, out, _ = run("group", "describe", f"franz-{topic}", "--json")
    assert '"lag": 0' in out


def test_two_members_of_a_group_write_each_record_once(
    program: Path, semel_broker: Broker, values: list[str]
) -> None:
    topic = "test_two_members_of_a_group_write_each_record_once"
    with (
        started(program, semel_broker, topic, f"{topic}-1") as first,
        started(program, semel_broker, topic, f"{topic}-2") as second,
    ):
        assert finished(first)[0] == values
        assert finished(second)[0] == values


def test_a_successor_goes_on_where_a_killed_member_stopped(
    program: Path, semel_broker: Broker, values: list[str]
) -> None:
    topic = "test_a_successor_goes_on_where_a_killed_member_stopped"
    with started(program, semel_broker, topic, topic) as killed:
        assert killed.stdout is not None
        for _ in range(7):
            assert killed.stdout.readline().startswith("committed ")
        killed.kill()
    with started(program, semel_broker, topic, topic) as successor:
        assert finished(successor)[0] == values
