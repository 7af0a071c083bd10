"""The client of Apache Kafka: the newest, and the last before 4.0, which Spark's connector uses.

The newer one speaks the newer dialect of transactions (TV2), the older one the older (TV1).
"""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peers.registry import ROOT, jars, java_classes

from semel.testing import Broker
from support.command_line import Run
from support.power_loss import SLOW_FLUSH, Disk
from support.raw_client import RawClient

TIMEOUT_S = 120
NEWEST = "java"
OLDER = "java-3.9"

Scenario = Callable[..., list[str]]


def java_command(client: str) -> list[str]:
    """Runs a scenario with this client. The program is compiled once, with the newest."""
    newest = jars(ROOT / "peers" / NEWEST)
    classes = java_classes(ROOT / "peers" / NEWEST / "Transactions.java", newest)
    class_path = jars(ROOT / "peers" / client)
    return ["java", "-Xmx256m", "-cp", f"{classes}:{class_path}/*", "Transactions"]


@pytest.fixture(params=[NEWEST, OLDER])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scenario(client: str, semel_broker: Broker, run: Run) -> Scenario:
    """Runs a scenario on a topic with three partitions, made of its name and the client's."""

    def command(name: str, *arguments: str) -> list[str]:
        topic = f"{name}-{client}"
        assert run("topic", "create", topic, "-p", "3", "--if-not-exists")[0] == 0
        done = subprocess.run(
            [*java_command(client), semel_broker.bootstrap_servers, name, topic, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return command


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    scenario: Scenario, client: str, run: Run
) -> None:
    assert scenario("commit-and-abort") == [
        *(f"committed {word} {number}" for word in ("first", "last") for number in range(3)),
        "stored 9",
    ]
    _, out, _ = run("txn", "describe", f"commit-and-abort-{client}", "--json")
    # Only in the newer dialect has every transaction an epoch of its own.
    assert f'"producer_epoch": {3 if client == NEWEST else 0}' in out


def test_a_successor_fences_the_producer_before_it(scenario: Scenario) -> None:
    refused, *committed = scenario("fencing")
    assert refused in ("old ProducerFencedException", "old InvalidProducerEpochException")
    assert committed == ["committed of the new one"]


def test_an_administrator_sees_and_ends_transactions(scenario: Scenario) -> None:
    *seen, refused, fenced, unknown, committed = scenario("admin")
    assert seen == [
        "version 2",
        "listed Ongoing",
        "described Ongoing in 2 timeout 60000",
        "producer first offset 0",
        "after abort CompleteAbort",
    ]
    assert refused in ("aborted ProducerFencedException", "aborted InvalidProducerEpochException")
    assert fenced == "after fencing Empty"
    assert unknown == "unknown TransactionalIdNotFoundException"
    assert committed == "committed 0"


@pytest.mark.parametrize("client", [NEWEST], indirect=True)
def test_an_administrator_terminates_a_transaction(scenario: Scenario) -> None:
    assert scenario("terminate") == ["after termination Empty", "committed 0"]


def test_a_transaction_that_takes_too_long_is_aborted(scenario: Scenario) -> None:
    state, late, *committed = scenario("timeout")
    assert state == "state CompleteAbort"
    assert late != "late committed"
    assert committed == ["committed in time"]


def test_many_transactions_in_a_row_need_no_second_attempt(scenario: Scenario) -> None:
    facts = scenario("many", "1000")
    assert Counter(fact.split()[0] for fact in facts) == {"done": 1000, "committed": 666}


def test_offsets_are_committed_with_what_was_made_of_the_records(
    scenario: Scenario, client: str, run: Run, tmp_path: Path
) -> None:
    values = sorted(f"record {number:04}" for number in range(1000))
    (tmp_path / "in").write_text("".join(f"{value}\n" for value in values))
    name = f"process-{client}"
    run("topic", "create", f"{name}-out", "-p", "2")
    run("topic", "create", name, "-p", "3")
    assert run("produce", name, str(tmp_path / "in"))[0] == 0
    facts = scenario("process", f"{name}-out", "1000")
    committed = [fact.removeprefix("committed ") for fact in facts if fact[0] == "c"]
    assert committed == values
    assert sum(int(fact.split()[2]) for fact in facts if fact[0] == "o") == 1000


@pytest.fixture
def durable_broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path) as broker:
        yield broker


def test_a_broker_that_is_killed_in_between_loses_and_repeats_nothing(
    client: str, durable_broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", durable_broker.bootstrap_servers)
    run("topic", "create", "killed", "-p", "3")
    command = [*java_command(client), durable_broker.bootstrap_servers, "many", "killed", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        facts = []
        for line in process.stdout:
            facts.append(line.strip())
            if line in ("done 100\n", "done 250\n", "done 400\n"):
                durable_broker.kill()
                durable_broker.restart()
        assert process.wait(TIMEOUT_S) == 0, durable_broker.complaints()
    committed = [int(fact.split()[1]) for fact in facts if fact.startswith("committed")]
    assert sorted(committed) == [number for number in range(600) if number % 3]


def test_after_a_power_loss_one_abort_is_enough(client: str, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "data")
    settings = {**SLOW_FLUSH, "journal.segment.bytes": 8 * 2**20}
    with Broker(data=disk.folder, settings=settings) as broker:
        with RawClient(broker) as raw:
            raw.create_topic("lost", 3)
        command = [*java_command(client), broker.bootstrap_servers, "power-loss", "lost"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "open\n"
                disk.lose_power(broker)
                facts, _ = process.communicate("\n", TIMEOUT_S)
            finally:
                process.kill()
    assert facts.splitlines() == ["refused", "committed kept"]
