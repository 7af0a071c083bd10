"""`semel log backup` beside a broker under load, whose files come and go meanwhile."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from semel import Producer
from semel.testing import Broker
from support import stored
from support.raw_client import METRICS, RawClient, metric

SEGMENT_BYTES = 1_500_000
SETTINGS = {
    "journal.segment.bytes": SEGMENT_BYTES,
    "message.max.bytes": 100_000,
    "journal.settle.bytes": 2 * SEGMENT_BYTES,
    "journal.volume.bytes": 4 * SEGMENT_BYTES,
    "log.retention.check.interval.ms": 20,
}
KEYS = 20
AT_ONCE = 50
STORED_AT_ONCE = 1_000
STORED_BESIDE_BACKUPS = 40_000
"""The folder grows no further, or each backup would take longer than the one before."""
BACKUPS_MAX = 10
DEADLINE_S = 120


class Writer(threading.Thread):
    """Writes each number to a topic that keeps all, and to one that keeps the newest of a key."""

    def __init__(self, servers: str) -> None:
        super().__init__()
        self._servers = servers
        self._stopped = threading.Event()
        self._grown = threading.Condition()
        self._stored_count = 0
        self._stored_max = 0
        self._failure: Exception | None = None

    def run(self) -> None:
        try:
            self._write()
        except Exception as failure:  # noqa: BLE001 - whatever it is, the test must hear of it.
            with self._grown:
                self._failure = failure
                self._grown.notify_all()

    def _write(self) -> None:
        with Producer(self._servers) as producer:
            number = 0
            while self._may_store(number):
                for _ in range(AT_ONCE):
                    value = str(number).ljust(1_000)
                    producer.send("all", value=value)
                    producer.send("newest", key=str(number % KEYS), value=value)
                    number += 1
                producer.flush()
                with self._grown:
                    self._stored_count = number
                    self._grown.notify_all()

    def _may_store(self, number: int) -> bool:
        with self._grown:
            self._grown.wait_for(lambda: self._stopped.is_set() or number < self._stored_max)
        return not self._stopped.is_set()

    def go_on(self, count: int) -> None:
        """Let it store this many more than it has."""
        with self._grown:
            self._stored_max = self._stored_count + count
            self._grown.notify_all()

    @property
    def stored_count(self) -> int:
        """How many are acknowledged."""
        with self._grown:
            assert self._failure is None, self._failure
            return self._stored_count

    def until_stored(self) -> None:
        """Until it has stored as many as it may."""
        with self._grown:
            assert self._grown.wait_for(
                lambda: self._stored_count >= self._stored_max or self._failure is not None,
                DEADLINE_S,
            )
            assert self._failure is None, self._failure

    def stop(self) -> None:
        with self._grown:
            self._stopped.set()
            self._grown.notify_all()
        self.join(DEADLINE_S)
        assert not self.is_alive()


class Work(NamedTuple):
    """What the broker has done so far."""

    volumes: float
    passes: float
    removed_bytes: float

    @classmethod
    def of(cls, broker: Broker) -> "Work":
        return cls(
            metric(broker, "semel_settling_volumes"),
            metric(broker, "semel_compaction_passes"),
            metric(broker, "semel_removed_bytes"),
        )

    def is_behind(self, later: "Work") -> bool:
        return any(now > then for then, now in zip(self, later, strict=True))


def semel(*arguments: object) -> None:
    command = [sys.executable, "-m", "semel", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_backup_taken_while_files_come_and_go_has_all_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    copy, count, is_beside_work = data, 0, False
    with Broker(data=data, settings=SETTINGS, arguments=METRICS) as broker:
        with RawClient(broker) as client:
            client.create_topic("all")
            client.create_topic("newest", cleanup_policy="compact")
        writer = Writer(broker.bootstrap_servers)
        writer.start()
        try:
            while not all(Work.of(broker)):
                writer.go_on(STORED_AT_ONCE)
                writer.until_stored()
            writer.go_on(STORED_BESIDE_BACKUPS)
            for number in range(BACKUPS_MAX):
                copy = tmp_path / f"copy-{number}"
                count = writer.stored_count
                before = Work.of(broker)
                semel("log", "backup", data, copy)
                is_beside_work = before.is_behind(Work.of(broker))
                if is_beside_work:
                    break
                shutil.rmtree(copy)
        finally:
            writer.stop()
    assert is_beside_work, "nothing was settled or compacted while a backup was taken"
    semel("log", "check", copy)
    with Broker(data=copy, settings=SETTINGS) as broker:
        (all_of_them,) = stored.numbers(broker, "all")
        assert all_of_them == list(range(len(all_of_them)))
        assert len(all_of_them) >= count
        (records,) = stored.stored(broker, "newest")
        newest = {int(record.key or b""): int(record.value or b"") for record in records}
        for key in range(KEYS):
            last_acknowledged = max(range(key, count, KEYS))
            assert newest[key] >= last_acknowledged
