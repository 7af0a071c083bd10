"""Kafka Connect in distributed mode: its state is three compacted topics.

Lines go from a file to a topic, each once, and from there to another file.
"""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from peers.java_program import JavaProgram
from peers.registry import ROOT, jars
from peers.stored_log import eventually

import semel
from semel.testing import Broker
from support.raw_client import RawClient

INTERNAL = {"config": "connect-configs", "offset": "connect-offsets", "status": "connect-statuses"}
"""The topics of the worker, by what they hold."""

FORGETFUL = {
    "journal.segment.bytes": 1_500_000,
    "message.max.bytes": 300_000,
    "journal.settle.bytes": 2**20,
    "log.retention.check.interval.ms": 200,
}
LINES_IN_PART = 6_000
LINE_SIZE = 300
"""So that a part fills a journal file: what is written to is not compacted."""
REPLY_S_MAX = 90


class Worker:
    """One process of Kafka Connect, and its REST interface."""

    def __init__(self, program: JavaProgram, port: int) -> None:
        self.program = program
        self._address = f"http://127.0.0.1:{port}"

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        self._answer("PUT", f"/connectors/{name}/config", config)

    def connectors(self) -> list[str]:
        return sorted(self._answer("GET", "/connectors"))

    def config(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self._answer("GET", f"/connectors/{name}/config")
        return found

    def wait_until_running(self, *names: str) -> None:
        for name in names:
            eventually(partial(self._states, name), lambda seen: seen == ["RUNNING"] * 2)

    def _answer(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        attempt = partial(self._call, method, path, body)
        return eventually(attempt, lambda answer: answer is not None)

    def _states(self, name: str) -> list[str]:
        status = self._call("GET", f"/connectors/{name}/status")
        if status is None:
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """What it answers; None while it cannot, as when it has just been started."""
        request = urllib.request.Request(
            self._address + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=REPLY_S_MAX) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = refusal.read().decode()
            # While it finds its group, and for a connector that it has not heard of yet.
            if refusal.code not in (404, 409, 500, 503):
                raise AssertionError(said) from refusal
        except (urllib.error.URLError, ConnectionError):
            self.program.require_running()
        return None


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", settings=FORGETFUL) as broker:
        with RawClient(broker) as client:
            client.create_topic("lines")
        yield broker


@pytest.fixture
def worker(broker: Broker, tmp_path: Path) -> Iterator[Worker]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "connect",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        # One that was killed is missed soon.
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "consumer.session.timeout.ms": "6000",
        "consumer.heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "0",
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
    }
    for role, topic in INTERNAL.items():
        settings |= {
            f"{role}.storage.topic": topic,
            f"{role}.storage.replication.factor": "1",
            f"{role}.storage.min.cleanable.dirty.ratio": "0.01",
        }
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    arguments = ["org.apache.kafka.connect.cli.ConnectDistributed", str(file)]
    class_path = [f"{jars(ROOT / 'peers' / 'connect')}/*"]
    with JavaProgram(class_path, arguments, tmp_path / "connect") as program:
        yield Worker(program, port)


class Files:
    """What the source reads, and what the sink has written."""

    def __init__(self, folder: Path) -> None:
        self.source, self.sink = folder / "source", folder / "sink"
        self.lines: list[str] = []

    def write_part(self) -> None:
        first = len(self.lines)
        numbers = range(first, first + LINES_IN_PART)
        part = [f"line {number} ".ljust(LINE_SIZE, ".") for number in numbers]
        self.lines += part
        with self.source.open("a") as file:
            file.writelines(f"{line}\n" for line in part)

    def wait_for_sink(self, line_count: int) -> None:
        """Until the sink has written so many different lines; after a kill it may repeat some."""
        eventually(
            lambda: len(set(self.sink.read_text().splitlines())) if self.sink.exists() else 0,
            lambda count: count >= line_count,
        )


def rows_of(broker: Broker, topic: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = semel.read(
        topic, bootstrap_servers=broker.bootstrap_servers
    ).to_pylist()
    return rows


def places_of_records(broker: Broker, topic: str) -> set[tuple[int, int]]:
    return {(row["partition"], row["offset"]) for row in rows_of(broker, topic)}


def wait_until_some_are_gone(broker: Broker, topic: str, places: set[tuple[int, int]]) -> None:
    eventually(partial(places_of_records, broker, topic), lambda remaining: not places <= remaining)


def newest_values(broker: Broker, topic: str) -> dict[bytes, bytes | None]:
    return {row["key"]: row["value"] for row in rows_of(broker, topic)}


def source_config(files: Files, batch_size: int) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(files.source),
        "topic": "lines",
        "batch.size": str(batch_size),
    }


def sink_config(files: Files) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(files.sink),
        "topics": "lines",
    }


def test_the_state_of_a_worker_outlives_worker_and_broker_in_compacted_topics(
    broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    files.write_part()
    worker.configure("source", source_config(files, 200))
    worker.configure("sink", sink_config(files))
    worker.wait_until_running("source", "sink")
    files.wait_for_sink(LINES_IN_PART // 2)
    worker.program.kill()
    first = {topic: places_of_records(broker, topic) for topic in INTERNAL.values()}

    # What it is to do it knows from its topics alone.
    files.write_part()
    worker.program.start()
    worker.wait_until_running("source", "sink")
    worker.configure("source", source_config(files, 100))
    worker.wait_until_running("source", "sink")
    files.wait_for_sink(LINES_IN_PART + LINES_IN_PART // 2)
    broker.kill()
    broker.restart()

    files.write_part()
    files.wait_for_sink(3 * LINES_IN_PART)
    for topic in INTERNAL.values():
        # The second life has replaced something of the first in each.
        wait_until_some_are_gone(broker, topic, first[topic])

    worker.program.kill()
    newest = {topic: newest_values(broker, topic) for topic in INTERNAL.values()}
    broker.restart()
    assert {topic: newest_values(broker, topic) for topic in INTERNAL.values()} == newest
    files.write_part()
    worker.program.start()
    worker.wait_until_running("source", "sink")
    assert worker.connectors() == ["sink", "source"]
    assert worker.config("source") == {"name": "source", **source_config(files, 100)}
    files.wait_for_sink(4 * LINES_IN_PART)

    assert [row["value"].decode() for row in rows_of(broker, "lines")] == files.lines
    assert set(files.sink.read_text().splitlines()) == set(files.lines)
    worker.program.stop()
