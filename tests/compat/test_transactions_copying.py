"""Read, process, write: whatever is killed, the copy has each record once and in order."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat import copying_app
from semel.testing import Broker
from support.raw_client import METRICS, RawClient, metric, produce_values
from support.transactional_wire import committed_offset, fetch, list_offset

PARTITION_COUNT = 2
RECORD_COUNT = 1_500
KILL_COUNT = 8
LOOKS_MAX = 600


class App:
    """Started again whenever it has ended."""

    def __init__(self, servers: str) -> None:
        self._command = [sys.executable, copying_app.__file__, servers, "source", "target"]
        self._process = self._start()
        self.start_count = 1

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def keep_running(self) -> None:
        if self._process.poll() is not None:
            self._process = self._start()
            self.start_count += 1

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", arguments=METRICS) as broker:
        with RawClient(broker) as client:
            for topic in ("source", "target"):
                client.create_topic(topic, PARTITION_COUNT)
        yield broker


@pytest.fixture
def app(broker: Broker) -> Iterator[App]:
    app = App(broker.bootstrap_servers)
    yield app
    app.kill()


def copied(broker: Broker, partition: int) -> list[bytes | None]:
    with RawClient(broker) as client:
        return fetch(client, "target", partition=partition).committed_values


def wait_for_more(broker: Broker, app: App, count: int) -> int:
    """Until so many records of partition 0 are copied; how many there are."""
    with RawClient(broker) as client:
        for _ in range(LOOKS_MAX):
            app.keep_running()
            found = fetch(client, "target")
            if len(found.committed_values) >= count:
                return len(found.committed_values)
            # Answered when a transaction has ended, or after a while to look at the application.
            fetch(client, "target", found.last_stable_offset, max_wait_ms=200)
    raise AssertionError(f"{count} records were not copied; the app ran {app.start_count} times")


def test_a_copy_under_kills_on_both_sides_has_each_record_once_in_order(
    broker: Broker, app: App
) -> None:
    rng = random.Random(17)
    values = [b"%d" % number for number in range(RECORD_COUNT)]
    done = 0
    with RawClient(broker) as client:
        produce_values(client, "source", values)
    for kill in range(KILL_COUNT):
        done = wait_for_more(broker, app, done + rng.randrange(20, 120))
        if kill % 2:
            broker.kill()
            broker.start()
        else:
            app.kill()
    wait_for_more(broker, app, RECORD_COUNT)
    app.kill()
    assert copied(broker, 0) == values
    assert app.start_count > KILL_COUNT // 2
    with RawClient(broker) as client:
        assert committed_offset(client, "copiers", "source") == (RECORD_COUNT, 0)
        assert list_offset(client, "target", 1) > RECORD_COUNT
    assert metric(broker, "semel_requests_late") == 0
