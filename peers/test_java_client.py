"""The client of Apache Kafka, which speaks the newer dialect of transactions (TV2)."""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peers.registry import ROOT, jars, java_classes

from semel.testing import Broker
from support.command_line import Run

TIMEOUT_S = 120

Scenario = Callable[..., list[str]]


@pytest.fixture(scope="session")
def java() -> list[str]:
    """The command that runs a scenario."""
    project = ROOT / "peers" / "java"
    class_path = jars(project)
    classes = java_classes(project / "Transactions.java", class_path)
    return ["java", "-Xmx256m", "-cp", f"{classes}:{class_path}/*", "Transactions"]


@pytest.fixture
def scenario(java: list[str], semel_broker: Broker, run: Run) -> Scenario:
    """Runs a scenario on a new topic of its name with three partitions; the facts it printed."""

    def command(name: str, *arguments: str) -> list[str]:
        assert run("topic", "create", name, "-p", "3", "--if-not-exists")[0] == 0
        done = subprocess.run(
            [*java, semel_broker.bootstrap_servers, name, name, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return command


def test_what_is_committed_is_read_and_what_is_aborted_is_not(scenario: Scenario, run: Run) -> None:
    assert scenario("commit-and-abort") == [
        *(f"committed {word} {number}" for word in ("first", "last") for number in range(3)),
        "stored 9",
    ]
    _, out, _ = run("txn", "describe", "commit-and-abort", "--json")
    # An epoch for every transaction shows that the newer dialect was spoken.
    assert '"producer_epoch": 3' in out


def test_a_successor_fences_the_producer_before_it(scenario: Scenario) -> None:
    refused, *committed = scenario("fencing")
    assert refused in ("old ProducerFencedException", "old InvalidProducerEpochException")
    assert committed == ["committed of the new one"]


def test_an_administrator_sees_and_ends_transactions(scenario: Scenario) -> None:
    *seen, refused, terminated, unknown, committed = scenario("admin")
    assert seen == [
        "version 2",
        "listed Ongoing",
        "described Ongoing in 2 timeout 60000",
        "producer first offset 0",
        "after abort CompleteAbort",
    ]
    assert refused in ("aborted ProducerFencedException", "aborted InvalidProducerEpochException")
    assert terminated == "after termination Empty"
    assert unknown == "unknown TransactionalIdNotFoundException"
    assert committed == "committed 0"


def test_a_transaction_that_takes_too_long_is_aborted(scenario: Scenario) -> None:
    state, late, *committed = scenario("timeout")
    assert state == "state CompleteAbort"
    assert late != "late committed"
    assert committed == ["committed in time"]


def test_many_transactions_in_a_row_need_no_second_attempt(scenario: Scenario) -> None:
    facts = scenario("many", "1000")
    assert Counter(fact.split()[0] for fact in facts) == {"done": 1000, "committed": 666}


def test_offsets_are_committed_with_what_was_made_of_the_records(
    scenario: Scenario, run: Run, tmp_path: Path
) -> None:
    values = sorted(f"record {number:04}" for number in range(1000))
    (tmp_path / "in").write_text("".join(f"{value}\n" for value in values))
    run("topic", "create", "process-out", "-p", "2")
    run("topic", "create", "process", "-p", "3")
    assert run("produce", "process", str(tmp_path / "in"))[0] == 0
    facts = scenario("process", "process-out", "1000")
    committed = [fact.removeprefix("committed ") for fact in facts if fact[0] == "c"]
    assert committed == values
    assert sum(int(fact.split()[2]) for fact in facts if fact[0] == "o") == 1000


@pytest.fixture
def durable_broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path) as broker:
        yield broker


def test_a_broker_that_is_killed_in_between_loses_and_repeats_nothing(
    java: list[str], durable_broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", durable_broker.bootstrap_servers)
    run("topic", "create", "killed", "-p", "3")
    command = [*java, durable_broker.bootstrap_servers, "many", "killed", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        facts = []
        for line in client.stdout:
            facts.append(line.strip())
            if line in ("done 100\n", "done 250\n", "done 400\n"):
                durable_broker.kill()
                durable_broker.restart()
        assert client.wait(TIMEOUT_S) == 0
    committed = [int(fact.split()[1]) for fact in facts if fact.startswith("committed")]
    assert sorted(committed) == [number for number in range(600) if number % 3]
