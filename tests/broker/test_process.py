"""The broker as a process: it starts with one line, ends cleanly, and guards its folder."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from semel.testing import Broker
from support import looking
from support.raw_client import (
    RawClient,
    encoded,
    fetch_request,
    fetched_values,
    produce_values,
    request_frame,
)

DEADLINE_S = 60
READY = "Semel is ready on 127.0.0.1:"
LONG_POLL = request_frame(
    "fetch", 11, encoded("fetch", 11, fetch_request("t", 0, max_wait_ms=60_000))
)


@contextlib.contextmanager
def served(
    arguments: Sequence[str], stdin: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "semel", "serve", "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def port_of(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(READY), line
    return int(line.removeprefix(READY).partition(",")[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_clients_connected(
    tmp_path: Path, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    with served(["--data", str(data)]) as process:
        broker = Broker(port=port_of(process))
        with RawClient(broker) as writer, RawClient(broker) as waiting, RawClient(broker):
            writer.create_topic("t")
            produce_values(writer, "t", [b"kept"])
            request = fetch_request("t", 1, max_wait_ms=60_000)
            waiting.send(request_frame("fetch", 11, encoded("fetch", 11, request)))
            process.send_signal(number)
            assert process.wait(DEADLINE_S) == 0
            assert waiting.is_closed_by_broker
        assert process.stderr is not None
        assert process.stderr.read() == ""
    with Broker(data=data) as again, RawClient(again) as reader:
        assert fetched_values(reader, "t") == [b"kept"]


def poll_for_long(broker: Broker, ended: threading.Event) -> None:
    """On one connection after the other, with more requests behind each poll."""
    while not ended.is_set():
        with contextlib.suppress(OSError), RawClient(broker) as client:
            client.send(LONG_POLL * 3)


def test_a_signal_under_long_polls_and_new_requests_leaves_no_trace_in_the_log() -> None:
    for _ in range(3):
        ended = threading.Event()
        with (
            served(["--ephemeral"]) as process,
            ThreadPoolExecutor() as threads,
            contextlib.ExitStack() as clients,
        ):
            broker = Broker(port=port_of(process))
            clients.callback(ended.set)
            first = clients.enter_context(RawClient(broker))
            first.create_topic("t")
            waiting = [clients.enter_context(RawClient(broker)) for _ in range(10)]
            for client in waiting:
                client.send(LONG_POLL * 3)
            for _ in range(4):
                threads.submit(poll_for_long, broker, ended)
            assert first.end_offset("t") == 0
            process.terminate()
            _, complaints = process.communicate(timeout=DEADLINE_S)
            assert all(client.is_closed_by_broker for client in waiting)
        assert process.returncode == 0
        assert complaints == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file that is always full")
def test_it_serves_and_ends_also_if_the_disk_of_its_own_words_is_full(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--listen", f"127.0.0.1:{port}", "--metrics", "127.0.0.1:0"]
    command = [sys.executable, "-m", "semel", "serve", "--data", str(tmp_path), *arguments]
    with (
        Path("/dev/full").open("wb") as full,
        subprocess.Popen(command, stdout=full, stderr=full) as process,
    ):
        try:
            asyncio.run(looking.until(lambda: listens(process, port)))
            with RawClient(Broker(port=port)) as client:
                client.create_topic("t")
                produce_values(client, "t", [b"stored"])
                assert fetched_values(client, "t") == [b"stored"]
            process.send_signal(signal.SIGTERM)
            # 120: Python could not write all it had to say.
            assert process.wait(DEADLINE_S) in (0, 120)
        finally:
            process.kill()


def listens(process: "subprocess.Popen[bytes]", port: int) -> bool:
    assert process.poll() is None, "it ended before it listened"
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), DEADLINE_S).close()
        return True
    return False


def test_a_client_that_does_not_read_cannot_keep_it_from_ending(tmp_path: Path) -> None:
    with served(["--data", str(tmp_path / "data")]) as process:
        broker = Broker(port=port_of(process))
        with RawClient(broker) as client:
            client.create_topic("t")
            for _ in range(20):
                produce_values(client, "t", [bytes(500_000)])
            fetch = request_frame("fetch", 11, encoded("fetch", 11, fetch_request("t", 0)))
            client.send(fetch * 10)
            with RawClient(broker) as other:
                assert other.end_offset("t") == 20
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0


def test_a_second_broker_on_the_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(["--data", str(data)]) as first:
        port_of(first)
        with served(["--data", str(data)]) as second:
            _, complaint = second.communicate(timeout=DEADLINE_S)
        assert second.returncode == 1
        assert complaint.count("\n") == 1
        assert str(data) in complaint
        assert first.poll() is None


def test_a_port_that_is_taken_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with served(["--data", str(tmp_path / "data"), "--listen", address]) as process:
            _, complaint = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 1
            assert complaint.count("\n") == 1
            assert "in use" in complaint


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("num.partition=3", "'num.partitions'"),
        ("num.partitions=many", "whole number"),
        ("num.partitions=0", "between 1 and"),
        ("auto.create.topics.enable=perhaps", "true or false"),
        ("message.max.bytes=100000000", "journal.segment.bytes"),
        ("nonsense", "NAME=VALUE"),
    ],
)
def test_a_bad_setting_is_refused_in_one_sentence(tmp_path: Path, setting: str, words: str) -> None:
    with served(["--data", str(tmp_path / "data"), "--set", setting]) as process:
        _, complaint = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert complaint.count("\n") == 1
    assert words in complaint


def test_an_ephemeral_folder_is_gone_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with served(["--ephemeral"]) as process:
        port_of(process)
        assert list(tmp_path.iterdir()) != []
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
    assert list(tmp_path.iterdir()) == []


def test_an_ephemeral_folder_is_gone_when_the_parent_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with served(["--ephemeral", "--stop-with-stdin"], stdin=subprocess.PIPE) as process:
        port_of(process)
        assert list(tmp_path.iterdir()) != []
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_the_folder_free(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as broker:
        with RawClient(broker) as client:
            client.create_topic("t")
            produce_values(client, "t", [b"kept"])
        for _ in range(3):
            broker.kill()
            broker.start()
        with RawClient(broker) as client:
            assert fetched_values(client, "t") == [b"kept"]
