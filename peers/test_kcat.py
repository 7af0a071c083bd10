"""kcat, the command line of librdkafka, in whichever version Debian has."""

import json
import subprocess

import pytest
from confluent_kafka import Producer
from peers.registry import debian_program

from semel.testing import Broker
from support.command_line import Run

TIMEOUT_S = 60


@pytest.fixture(scope="session")
def kcat(semel_broker: Broker) -> list[str]:
    return [*debian_program("kcat"), "-q", "-b", semel_broker.bootstrap_servers]


def said(command: list[str], *arguments: str, given: str = "") -> str:
    done = subprocess.run(
        [*command, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_cluster_is_described(kcat: list[str], run: Run) -> None:
    run("topic", "create", "kcat-described", "-p", "3")
    described = json.loads(said(kcat, "-L", "-J", "-t", "kcat-described"))
    (topic,) = described["topics"]
    assert topic["topic"] == "kcat-described"
    assert len(topic["partitions"]) == 3
    assert len(described["brokers"]) == 1


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_written_is_read(kcat: list[str], run: Run, codec: str) -> None:
    topic = f"kcat-{codec}"
    run("topic", "create", topic, "-p", "1")
    lines = "".join(f"key {number}:value {number}\n" for number in range(1000))
    said(kcat, "-P", "-t", topic, "-K", ":", "-z", codec, given=lines)
    assert said(kcat, "-C", "-t", topic, "-o", "beginning", "-e", "-K", ":") == lines
    _, out, _ = run("consume", topic, "-e", "-f", "%k:%s\\n")
    assert out == lines


def test_a_transaction_is_hidden_from_readers_of_committed_records_until_it_is_committed(
    kcat: list[str], run: Run, semel_broker: Broker
) -> None:
    topic = "kcat-transaction"
    run("topic", "create", topic, "-p", "1")
    reading = ["-C", "-t", topic, "-o", "beginning", "-e"]
    uncommitted = [*reading, "-X", "isolation.level=read_uncommitted"]
    producer = Producer(
        {
            "bootstrap.servers": semel_broker.bootstrap_servers,
            "transactional.id": topic,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    assert producer.flush(TIMEOUT_S) == 0
    assert said(kcat, *reading) == ""
    assert said(kcat, *uncommitted) == "one\n"
    producer.commit_transaction(TIMEOUT_S)
    assert said(kcat, *reading) == "one\n"
    producer.begin_transaction()
    producer.produce(topic, b"two")
    producer.flush(TIMEOUT_S)
    producer.abort_transaction(TIMEOUT_S)
    assert said(kcat, *reading) == "one\n"
    assert said(kcat, *uncommitted) == "one\ntwo\n"


def test_a_group_goes_on_where_it_stopped(kcat: list[str], run: Run) -> None:
    topic = "kcat-group"
    run("topic", "create", topic, "-p", "1")
    said(kcat, "-P", "-t", topic, given="1\n2\n3\n")
    reading = ["-G", "kcat-readers", "-e", "-X", "auto.offset.reset=earliest", topic]
    assert said(kcat, *reading) == "1\n2\n3\n"
    said(kcat, "-P", "-t", topic, given="4\n")
    assert said(kcat, *reading) == "4\n"
