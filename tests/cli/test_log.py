"""`semel log` on the folder of a broker that has run, and was damaged or not."""

import errno
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from semel import Producer
from semel.cli.main import main
from semel.journal import names
from semel.journal.frames import HEADER_SIZE, head, header_at
from semel.testing import Broker
from support import stored, topics

SETTINGS = {"journal.segment.bytes": 1_500_000, "message.max.bytes": 100_000}
TRANSACTIONS = 40
RECORDS = 10
VALUE = "v" * 5_000


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a broker that was stopped: transactions over two partitions, in several segments."""
    folder = tmp_path_factory.mktemp("log") / "data"
    with Broker(data=folder, settings=SETTINGS) as broker:
        topics.create(broker.bootstrap_servers, "orders", 2)
        with Producer(broker.bootstrap_servers, transactional_id="shop") as producer:
            for _ in range(TRANSACTIONS):
                with producer.transaction():
                    for number in range(2 * RECORDS):
                        producer.send("orders", value=VALUE, partition=number % 2, key="ké")
    return folder


@pytest.fixture
def folder(ran: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ran, tmp_path / "data"))


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def dumped(run: Run, *arguments: object) -> list[dict[str, Any]]:
    code, out, _ = run("log", "dump", *arguments, "--json")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def flip(file: Path, offset: int) -> None:
    content = bytearray(file.read_bytes())
    content[offset] ^= 4
    file.write_bytes(content)


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Checking


def test_a_whole_folder_is_called_whole_and_left_as_it_is(run: Run, folder: Path) -> None:
    before = contents_of(folder)
    code, out, err = run("log", "check", folder)
    assert (code, err) == (0, "")
    assert out.startswith("all is whole: ")
    code, out, _ = run("log", "check", folder, "--json")
    report = json.loads(out)
    assert (code, report["damaged"], report["findings"]) == (0, False, [])
    batches = [entry for frame in dumped(run, folder) for entry in frame["entries"]]
    assert report["counts"]["batches"] == sum("partition" in entry for entry in batches)
    assert contents_of(folder) == before


def test_one_is_not_called_many(run: Run, tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data"):
        pass
    _, out, _ = run("log", "check", tmp_path / "data")
    assert "1 segment," in out
    assert not re.search(r"\b1 \w+s\b", out)


def test_bytes_that_the_disk_does_not_give_are_named_with_what_is_lost(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = next(
        frame
        for frame in dumped(run, folder, "--from", 400_000)
        if any(batch["marker"] is None for batch in batches_of(frame, "orders-0"))
    )
    bad = range(frame["position"] + 10_000, frame["position"] + 10_001)
    file = folder / names.segment(0)
    read = os.pread

    def faulty(descriptor: int, size: int, offset: int) -> bytes:
        is_hit = offset < bad.stop and bad.start < offset + size
        if is_hit and os.path.sameopenfile(descriptor, opened.fileno()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(descriptor, size, offset)

    with file.open("rb") as opened:
        monkeypatch.setattr(os, "pread", faulty)
        code, out, _ = run("log", "check", folder)
    assert code == 1
    lost = next(batches_of(frame, "orders-0"))
    first, last = lost["base_offset"], lost["last_offset"]
    assert f"orders-0 misses offsets {first} to {last}" in out.splitlines()
    begin = bad.start - bad.start % 4096
    assert f"{file.name}, byte {begin}: the disk cannot read 4096 bytes" in out.splitlines()


def batches_of(frame: dict[str, Any], topic: str) -> Iterator[dict[str, Any]]:
    for entry in frame["entries"]:
        if entry.get("partition", "").startswith(topic):
            yield entry


def test_records_that_are_lost_are_named_and_the_broker_goes_on(run: Run, folder: Path) -> None:
    """A frame of data in the first segment, which a start does not look at."""
    frame = next(
        frame
        for frame in dumped(run, folder, "--from", 400_000)
        if any(batch["marker"] is None for batch in batches_of(frame, "orders-0"))
    )
    lost = {batch["partition"]: batch for batch in batches_of(frame, "orders")}
    flip(folder / names.segment(0), frame["position"] + 1_000)
    code, out, _ = run("log", "check", folder)
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == (
        f"{names.segment(0)}, byte {frame['position']}: wrong checksum; "
        f"{frame['size']} bytes are no whole frame"
    )
    assert lines[1] == ("    a start does not look there; whoever reads these bytes gets an error")
    for partition in ("orders-0", "orders-1"):
        first, last = lost[partition]["base_offset"], lost[partition]["last_offset"]
        assert f"{partition} misses offsets {first} to {last}" in lines
    (gap,) = (frame for frame in dumped(run, folder) if "gap" in frame)
    assert (gap["gap"], gap["size"]) == (frame["position"], frame["size"])
    with Broker(data=folder, settings=SETTINGS) as broker:
        topics.fill(broker.bootstrap_servers, "orders", [b"goes on"])


def test_records_that_the_topic_has_deleted_are_not_called_lost(run: Run, folder: Path) -> None:
    frame = next(
        frame
        for frame in dumped(run, folder, "--from", 400_000)
        if list(batches_of(frame, "orders-0"))
    )
    with Broker(data=folder, settings=SETTINGS) as broker:
        assert run("topic", "delete", "orders", "-b", broker.bootstrap_servers)[0] == 0
    flip(folder / names.segment(0), frame["position"] + 40)
    code, out, _ = run("log", "check", folder)
    assert code == 1
    assert "orders-0" not in out


def test_a_batch_that_was_stored_wrong_is_told_from_a_frame_that_is_damaged(
    run: Run, folder: Path
) -> None:
    """Its frame has the right checksum, and no checksum is right by chance."""
    base = names.positions([path.name for path in folder.iterdir()], names.SEGMENT)[-1]
    file = folder / names.segment(base)
    frame = dumped(run, folder, "--from", base)[0]
    batch = next(batches_of(frame, "orders"))
    content = bytearray(file.read_bytes())
    content[batch["position"] - base + batch["size"] - 1] ^= 1
    start = frame["position"] - base
    header = header_at(content, start)
    payload = bytes(content[start + HEADER_SIZE : start + HEADER_SIZE + header.size])
    fixed, _ = head(
        [payload], header.size, header.previous, header.position, header.incarnation, header.durable
    )
    content[start : start + HEADER_SIZE] = fixed
    file.write_bytes(content)
    _, out, _ = run("log", "check", folder)
    assert (
        f"{file.name}, byte {start}: wrong checksum of the batch of {batch['partition']} at "
        f"offset {batch['base_offset']}"
    ) in out.splitlines()


def test_a_folder_in_use_is_refused(run: Run, folder: Path) -> None:
    with Broker(data=folder, settings=SETTINGS):
        code, _, err = run("log", "check", folder)
        assert (code, err) == (3, f"semel: a broker is using {folder}: stop it first\n")
        code, _, err = run("log", "check", folder, "--json")
        assert (code, json.loads(err).keys()) == (3, {"error"})
    assert run("log", "check", folder)[0] == 0


@pytest.mark.parametrize("command", ["check", "dump"])
def test_what_is_no_data_folder_or_of_a_newer_version_is_refused(
    run: Run, tmp_path: Path, command: str
) -> None:
    code, _, err = run("log", command, tmp_path)
    assert (code, "is no data folder" in err) == (2, True)
    code, _, err = run("log", command, tmp_path / "absent")
    assert (code, "there is no such folder" in err) == (2, True)
    (tmp_path / names.FORMAT).write_text("format 99\n")
    code, _, err = run("log", command, tmp_path)
    assert (code, "has format 99" in err) == (4 if command == "check" else 1, True)
    assert [path.name for path in tmp_path.iterdir()] == [names.FORMAT]


# Showing


def test_all_that_was_written_is_shown_in_its_order(run: Run, folder: Path) -> None:
    frames = dumped(run, folder)
    ends = [frame["position"] + frame["size"] for frame in frames]
    assert [frame["position"] for frame in frames] == [0, *ends[:-1]]
    assert [entry["fact"] for entry in frames[0]["entries"]] == [
        "Opened",
        "ClusterNamed",
        "RetentionEnforced",
    ]
    batches = [batch for frame in frames for batch in batches_of(frame, "orders-1")]
    offsets = [(batch["base_offset"], batch["last_offset"]) for batch in batches]
    per_transaction = RECORDS + 1
    assert offsets[0][0] == 0
    assert offsets[-1][1] == TRANSACTIONS * per_transaction - 1
    assert sum(batch["marker"] == "commit" for batch in batches) == TRANSACTIONS


def test_one_partition_from_a_position_on_with_its_records(run: Run, folder: Path) -> None:
    frames = dumped(run, folder)
    middle = frames[len(frames) // 2]
    shown = dumped(run, folder, "-p", "orders-1", "--from", middle["position"] + 1, "--records")
    assert {entry["partition"] for frame in shown for entry in frame["entries"]} == {"orders-1"}
    wanted = [frame for frame in frames if frame["position"] >= middle["position"]]
    assert [frame["position"] for frame in shown] == [
        frame["position"] for frame in wanted if list(batches_of(frame, "orders-1"))
    ]
    records = [
        record
        for frame in shown
        for entry in frame["entries"]
        if entry["marker"] is None
        for record in entry["records"]
    ]
    assert records
    assert {(record["key"], record["value"]) for record in records} == {("ké", VALUE)}


def test_what_cannot_be_a_partition_is_not_looked_for(run: Run, folder: Path) -> None:
    code, out, said = run("log", "dump", folder, "--partition", "orders")
    assert (code, out) == (2, "")
    assert "name it as orders-0" in said


def test_a_partition_that_is_not_there_is_told_from_one_that_is_empty(
    run: Run, folder: Path
) -> None:
    code, out, err = run("log", "dump", folder, "-p", "order-0")
    assert (code, out) == (1, "")
    assert err == "semel: there is no partition 'order-0'; did you mean 'orders-0'?\n"
    with Broker(data=folder, settings=SETTINGS) as broker:
        topics.create(broker.bootstrap_servers, "unused", 1)
    assert run("log", "dump", folder, "-p", "unused-0") == (0, "", "")
    assert run("log", "dump", folder, "-p", "unused-1")[0] == 1


def test_a_lane_that_is_not_there_is_told(run: Run, folder: Path) -> None:
    for lane in (-1, 1):
        code, out, err = run("log", "dump", folder, "--lane", lane)
        assert (code, out, err) == (2, "", f"semel: --lane {lane}: {folder} has 1 lane\n")


def test_a_partition_is_looked_for_in_all_lanes(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(data=data, workers=2) as broker:
        topics.create(broker.bootstrap_servers, "news", 2)
        for number in range(2):
            topics.fill(broker.bootstrap_servers, "news", [b"one"], number)
    lanes = {}
    for number in range(2):
        code, out, said = run("log", "dump", data, "-p", f"news-{number}", "--json")
        (found,) = (batch for line in out.splitlines() for batch in json.loads(line)["entries"])
        assert (code, found["partition"]) == (0, f"news-{number}")
        (lane,) = (lane for lane in "01" if said == f"semel: what follows is of lane {lane}\n")
        assert dumped(run, data, "-p", f"news-{number}", "--lane", lane) == [json.loads(out)]
        lanes[number] = lane
    assert set(lanes.values()) == {"0", "1"}
    elsewhere = run("log", "dump", data, "-p", "news-1", "--lane", lanes[0])
    assert elsewhere[:2] == (0, "")
    code, out, err = run("log", "dump", data, "-p", "newss-1")
    assert (code, out) == (1, "")
    assert err == "semel: there is no partition 'newss-1'; did you mean 'news-1'?\n"


def test_lines_to_read(run: Run, folder: Path) -> None:
    code, out, _ = run("log", "dump", folder, "--partition", "orders-0", "--records")
    assert code == 0
    frame, batch, record = out.splitlines()[:3]
    assert frame.startswith("frame ")
    assert batch.startswith("  batch orders-0 offsets 0 to ")
    assert record.startswith("    0  ")
    assert record.endswith(f'"ké": "{VALUE}"')
    assert "  marker orders-0 offset 10: commit of producer 0 epoch " in out


def test_a_running_broker_is_looked_at(run: Run, folder: Path) -> None:
    with Broker(data=folder, settings=SETTINGS) as broker:
        topics.create(broker.bootstrap_servers, "seen")
        assert '"seen"' in run("log", "dump", folder)[1]


# Backing up


class Writer(threading.Thread):
    """Writes numbers to one partition until it is told to stop."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        self._servers = servers
        self._topic = topic
        self._stopped = threading.Event()
        self._grown = threading.Condition()
        self._stored_count = 0

    def run(self) -> None:
        with Producer(self._servers) as producer:
            number = 0
            while not self._stopped.is_set():
                for _ in range(50):
                    producer.send(self._topic, value=str(number).ljust(2_000), partition=0)
                    number += 1
                producer.flush()
                with self._grown:
                    self._stored_count = number
                    self._grown.notify_all()

    def stored_more(self, count: int) -> int:
        """How many are acknowledged, once these are more than were."""
        with self._grown:
            wanted = self._stored_count + count
            self._grown.wait_for(lambda: self._stored_count >= wanted)
            return self._stored_count

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def test_a_backup_of_a_running_broker_has_what_was_acknowledged_before_it(
    run: Run, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    promised: dict[Path, int] = {}
    with Broker(data=data, settings=SETTINGS) as broker:
        topics.create(broker.bootstrap_servers, "numbers")
        writer = Writer(broker.bootstrap_servers, "numbers")
        writer.start()
        try:
            for number in range(3):
                copy = tmp_path / f"copy-{number}"
                promised[copy] = writer.stored_more(1_500)
                code, _, err = run("log", "backup", data, copy)
                assert (code, err) == (0, "")
        finally:
            writer.stop()
    for copy, count in promised.items():
        assert run("log", "check", copy)[0] == 0
        with Broker(data=copy, settings=SETTINGS) as broker:
            (found,) = stored.numbers(broker, "numbers")
            assert found == list(range(len(found)))
            assert len(found) >= count
            # It counts as another disk.
            _, out, _ = run(
                "topic", "describe", "numbers", "--json", "-b", broker.bootstrap_servers
            )
            assert json.loads(out)[0]["partitions"][0]["epoch"] == 1


def test_a_backup_of_a_damaged_folder_is_refused_and_leaves_nothing(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    flip(folder / names.segment(0), 5_000)
    code, _, err = run("log", "backup", folder, tmp_path / "copy")
    assert code == 1
    assert names.segment(0) in err
    assert "no backup" in err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    code, _, err = run("log", "backup", folder, folder)
    assert (code, "is there already" in err) == (2, True)
