"""`semel txn`, against a broker with the transactional producer of librdkafka."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from semel.testing import Broker
from support.command_line import Run, rows

TIMEOUT_S = 30


class Transactions:
    """A transactional producer that writes one record to each partition it is told."""

    def __init__(self, run: Run, servers: str, transactional_id: str) -> None:
        self._run = run
        self.topic = transactional_id
        self.producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self.producer.init_transactions(TIMEOUT_S)

    def begin(self, *partitions: int) -> None:
        self.producer.begin_transaction()
        for partition in partitions:
            self.producer.produce(self.topic, b"value", partition=partition)
        assert self.producer.flush(TIMEOUT_S) == 0

    def commit(self, *partitions: int) -> None:
        self.begin(*partitions)
        self.end(self.producer.commit_transaction)

    def abort(self, *partitions: int) -> None:
        self.begin(*partitions)
        self.end(self.producer.abort_transaction)

    def end(self, end: Callable[[float], None]) -> None:
        end(TIMEOUT_S)
        # Other brokers answer when the end is decided, and write the markers afterwards.
        while "Prepare" in self._run("txn", "describe", self.topic)[1]:
            pass


@pytest.fixture
def payments(run: Run, semel_broker: Broker, request: pytest.FixtureRequest) -> Transactions:
    """A producer with a topic of two partitions, both named after the test."""
    name = request.node.name
    assert run("topic", "create", name, "-p", "2")[0] == 0
    return Transactions(run, semel_broker.bootstrap_servers, name)


def stories(run: Run, transactional_id: str, *options: str) -> list[dict[str, Any]]:
    code, out, err = run("txn", "timeline", transactional_id, "--json", *options)
    assert (code, err) == (0, "")
    return list(json.loads(out))


def told(story: dict[str, Any], flow: str) -> list[Any]:
    """What went one way: by partition and offsets where it went to data logs."""
    events = [event for event in story["events"] if event["flow"] == flow]
    if flow in "ab":
        return [event["what"] for event in events]
    return [
        (event["what"], event["partition"], event["first_offset"], event["last_offset"])
        for event in events
    ]


def test_transactions_are_listed_by_state_and_by_how_long_they_are_open(
    run: Run, payments: Transactions
) -> None:
    def listed(*options: str) -> list[str]:
        _, out, _ = run("txn", "list", *options)
        assert rows(out)[0][0] == "TRANSACTIONAL-ID"
        return [row[0] for row in rows(out)[1:]]

    assert payments.topic in listed("--state", "empty")
    assert payments.topic not in listed("--longer-than", "0ms")
    payments.begin(0)
    assert payments.topic in listed()
    assert payments.topic in listed("-s", "ongoing", "-s", "prepare-commit")
    assert payments.topic not in listed("-s", "complete-commit")
    assert payments.topic not in listed("--longer-than", "1h")
    assert listed("--longer-than", "0ms", "-s", "complete-commit") == []
    _, out, _ = run("txn", "list", "--json")
    (mine,) = [one for one in json.loads(out) if one["transactional_id"] == payments.topic]
    assert (mine["state"], mine["coordinator_id"]) == ("Ongoing", 1)
    assert 0 <= mine["age_ms"] < 3_600_000
    payments.end(payments.producer.commit_transaction)
    assert payments.topic in listed("-s", "complete-commit")


def test_an_open_transaction_is_described_with_its_first_offsets(
    run: Run, payments: Transactions
) -> None:
    payments.commit(0)
    payments.begin(0, 1, 1)
    _, out, _ = run("txn", "describe", payments.topic, "--json")
    (described,) = json.loads(out)
    assert described["state"] == "Ongoing"
    assert described["timeout_ms"] == 60_000
    assert described["producer_epoch"] == 0
    assert described["partitions"] == [
        {"topic": payments.topic, "partition": 0, "first_offset": 2},
        {"topic": payments.topic, "partition": 1, "first_offset": 0},
    ]
    code, out, _ = run("txn", "describe", payments.topic)
    assert code == 0
    assert ["state", "Ongoing"] in rows(out)
    assert ["timeout", "1", "min"] in rows(out)
    assert rows(out)[-2:] == [[payments.topic, "0", "2"], [payments.topic, "1", "0"]]
    payments.end(payments.producer.abort_transaction)
    _, out, _ = run("txn", "describe", payments.topic)
    assert ["state", "CompleteAbort"] in rows(out)
    assert ["open", "for", "-"] in rows(out)


def test_an_operator_aborts_a_transaction_and_shuts_its_producer_out(
    run: Run, payments: Transactions, semel_broker: Broker
) -> None:
    payments.begin(0, 1)
    code, out, _ = run("txn", "abort", payments.topic)
    assert code == 0
    assert f"in {payments.topic}-0, {payments.topic}-1;" in out
    with pytest.raises(KafkaException) as refused:
        payments.producer.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].fatal()
    code, out, err = run("txn", "abort", payments.topic)
    assert (code, out) == (1, "")
    assert err == f"semel: {payments.topic} is Empty: it has no transaction open\n"
    _, out, _ = run("consume", payments.topic, "-e")
    assert out == ""
    successor = Transactions(run, semel_broker.bootstrap_servers, payments.topic)
    successor.begin(0)
    _, out, _ = run("txn", "abort", payments.topic, "--json")
    assert json.loads(out)["partitions"] == [[payments.topic, 0]]


def test_a_partition_of_a_known_transaction_is_not_aborted_alone(
    run: Run, payments: Transactions
) -> None:
    place = ["--topic", payments.topic, "--partition", "1"]
    payments.begin(0, 1)
    code, _, err = run("txn", "abort", *place, "--start-offset", "0")
    assert code == 1
    assert f"semel txn abort {payments.topic}" in err
    code, _, err = run("txn", "abort", *place, "--start-offset", "7")
    assert (code, err) == (
        1,
        f"semel: no open transaction in {payments.topic}-1 begins at offset 7\n",
    )
    code, _, err = run("txn", "abort", *place, "--producer-id", "987654")
    assert (code, err) == (
        1,
        f"semel: no open transaction in {payments.topic}-1 is of producer 987654\n",
    )
    payments.end(payments.producer.commit_transaction)
    _, out, _ = run("consume", payments.topic, "-e")
    assert out == "value\nvalue\n"


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    run: Run, payments: Transactions
) -> None:
    payments.begin(0)
    assert run("txn", "hanging", "--json") == (0, "[]\n", "")
    code, out, _ = run("txn", "hanging", payments.topic, "-p", "0")
    assert code == 0
    assert [row[0] for row in rows(out)] == ["TOPIC"]
    assert run("txn", "hanging", payments.topic, "-p", "9")[0] == 1


def test_the_timeline_tells_init_begin_data_markers_and_ends(
    run: Run, payments: Transactions
) -> None:
    payments.commit(0, 0, 1)
    payments.abort(1)
    payments.begin(0)
    first, second, third = stories(run, payments.topic)
    assert [first["outcome"], second["outcome"], third["outcome"]] == [
        "committed",
        "aborted",
        "open",
    ]
    assert told(first, "a")[0] == "init"
    assert told(first, "a")[-1] == "commit"
    assert told(first, "b")[0] == "Empty"
    assert told(first, "b")[-2:] == ["PrepareCommit", "CompleteCommit"]
    assert told(first, "c") == [("written", 0, 0, 1), ("written", 1, 0, 0)]
    assert told(first, "d") == [("commit", 0, 2, 2), ("commit", 1, 1, 1)]
    assert told(second, "a") == ["begin", "abort"]
    assert told(second, "b") == ["Ongoing", "PrepareAbort", "CompleteAbort"]
    assert told(second, "c") == [("written", 1, 2, 2)]
    assert told(second, "d") == [("abort", 1, 3, 3)]
    assert told(third, "a") == ["begin"]
    assert told(third, "c") == [("written", 0, 3, 3)]
    assert told(third, "d") == []
    for story in (first, second, third):
        moments = [event["at_ms"] for event in story["events"]]
        assert moments == sorted(moments)


def test_the_timeline_is_drawn_between_the_four_parties(run: Run, payments: Transactions) -> None:
    payments.commit(0)
    code, out, err = run("txn", "timeline", payments.topic)
    assert (code, err) == (0, "")
    header, *drawn = out.splitlines()[1:]
    assert header.split() == ["PRODUCER", "COORDINATOR", "TXN", "LOG", "DATA", "LOGS"]
    assert [line[line.index("(") + 1] for line in drawn] == list("ababcabdb")
    ends = {"a": "COORDINATOR", "b": "TXN LOG", "c": "DATA LOGS", "d": "DATA LOGS"}
    for line in drawn:
        flow = line[line.index("(") + 1]
        assert line.index("▶") + 1 == header.index(ends[flow]), line


def test_the_timeline_looks_back_as_far_as_it_is_told(run: Run, payments: Transactions) -> None:
    for number in range(30):
        (payments.abort if number % 3 == 0 else payments.commit)(0)
    last = stories(run, payments.topic, "-n", "7")
    assert [story["outcome"] for story in last] == [
        "aborted" if number % 3 == 0 else "committed" for number in range(23, 30)
    ]
    assert [told(story, "c") for story in last] == [
        [("written", 0, 2 * number, 2 * number)] for number in range(23, 30)
    ]
    assert [told(story, "d")[0][2] for story in last] == [
        2 * number + 1 for number in range(23, 30)
    ]


def test_the_timeline_has_the_offsets_that_a_consumer_commits_with_its_data(
    run: Run, payments: Transactions, semel_broker: Broker
) -> None:
    consumer = Consumer(
        {"bootstrap.servers": semel_broker.bootstrap_servers, "group.id": payments.topic}
    )
    try:
        payments.begin(0)
        payments.producer.send_offsets_to_transaction(
            [TopicPartition(payments.topic, 1, 5)], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        payments.end(payments.producer.commit_transaction)
    finally:
        consumer.close()
    (story,) = stories(run, payments.topic)
    topics = {(event["flow"], event["topic"]) for event in story["events"]}
    assert topics >= {(flow, "__consumer_offsets") for flow in "cd"}


def test_a_successor_and_an_operator_are_told_from_the_producer_itself(
    run: Run, payments: Transactions, semel_broker: Broker
) -> None:
    payments.begin(0)
    Transactions(run, semel_broker.bootstrap_servers, payments.topic)
    aborted, initialised = stories(run, payments.topic)
    assert aborted["outcome"] == "aborted"
    assert "abort" not in told(aborted, "a")
    assert told(initialised, "a") == ["init"]


@pytest.fixture
def durable_broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path) as broker:
        yield broker


def test_a_killed_broker_goes_on_with_the_same_timeline(
    run: Run, durable_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", durable_broker.bootstrap_servers)
    run("topic", "create", "killed", "-p", "2")
    before = Transactions(run, durable_broker.bootstrap_servers, "killed")
    before.commit(0, 1)
    before.begin(0)
    told_before = stories(run, "killed")
    durable_broker.kill()
    durable_broker.restart()
    assert stories(run, "killed") == told_before
    assert [story["outcome"] for story in told_before] == ["committed", "open"]
    Transactions(run, durable_broker.bootstrap_servers, "killed").commit(1)
    assert [story["outcome"] for story in stories(run, "killed")] == [
        "committed",
        "aborted",
        "committed",
    ]


def test_an_id_that_nobody_knows_is_one_sentence(run: Run) -> None:
    for command in ("describe", "abort", "timeline"):
        assert run("txn", command, "nobody") == (
            1,
            "",
            "semel: transactional id nobody is not known\n",
        )


def test_a_cluster_that_never_had_a_transaction_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker() as fresh:
        monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", fresh.bootstrap_servers)
        assert run("txn", "list", "--json") == (0, "[]\n", "")
        assert run("txn", "hanging", "--json") == (0, "[]\n", "")
        code, _, err = run("txn", "timeline", "nobody")
        assert code == 1
        assert "there was no transaction yet" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--state", "dead"],
        ["list", "--longer-than", "soon"],
        ["abort"],
        ["abort", "id", "--topic", "t"],
        ["abort", "--topic", "t", "--partition", "0"],
        ["abort", "--topic", "t", "--start-offset", "0"],
        ["abort", "-t", "t", "-p", "0", "--start-offset", "0", "--producer-id", "1"],
        ["hanging", "-p", "0"],
        ["timeline"],
        ["timeline", "id", "-n", "0"],
        ["describe"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_sentence(run: Run, arguments: list[str]) -> None:
    code, out, err = run("txn", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("semel: ")
    assert err.count("\n") == 1
