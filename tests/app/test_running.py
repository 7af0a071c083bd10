"""An application that a program runs by itself."""

import asyncio
import signal
import socket
import subprocess
import sys

import pytest

from semel import App, Record
from semel.client.consuming.asynchronous import AsyncConsumer
from semel.errors import NetworkException
from semel.testing import Broker
from support.app_topics import Topics, group_offsets, numbers, spread
from support.topics import create, fill, values

PROGRAM = """
import sys
from semel import App

servers, source, target, group = sys.argv[1:]
app = App(servers)

@app.listener(source, group=group)
@app.transactional
async def copy(record, out):
    out.send(target, value=record.value)
    print(record.value.decode(), flush=True)

app.run()
print("done")
"""


def test_a_program_runs_its_application_until_it_is_told_to_stop(topics: Topics) -> None:
    sent = numbers(30)
    spread(topics.servers, topics.source, sent)
    arguments = (topics.servers, topics.source, topics.target, topics.group)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for _ in sent:
            assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert (out, process.returncode) == ("done\n", 0)
    assert values(topics.servers, topics.target) == sent
    assert sum(group_offsets(topics.servers, topics.group).values()) == 30


STUCK = """
import sys, threading
from semel import App

servers, source, group = sys.argv[1:]
app = App(servers, stop_timeout_ms=50)

@app.listener(source, group=group)
@app.transactional
def stuck(record):
    print("at work", flush=True)
    threading.Event().wait()

app.run()
"""


def test_a_function_that_never_returns_does_not_keep_its_program(topics: Topics) -> None:
    spread(topics.servers, topics.source, numbers(1))
    arguments = (topics.servers, topics.source, topics.group)
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert group_offsets(topics.servers, topics.group) == {}


def test_an_application_waits_for_a_broker_that_is_started_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = App(f"127.0.0.1:{port}")
    seen: list[bytes] = []
    is_told = asyncio.Event()
    poll = AsyncConsumer.poll

    async def polled(
        self: AsyncConsumer, timeout_ms: float, max_records: int | None
    ) -> list[Record]:
        try:
            return await poll(self, timeout_ms, max_records)
        except NetworkException:
            is_told.set()
            raise

    monkeypatch.setattr(AsyncConsumer, "poll", polled)

    @app.listener("in", group="g", block_timeout_ms=1)
    def note(record: Record) -> None:
        seen.append(record.value)

    async def scenario() -> None:
        async with app.running() as run:
            await is_told.wait()
            with Broker(port=port) as broker:
                await asyncio.to_thread(create, broker.bootstrap_servers, "in", 1)
                await asyncio.to_thread(fill, broker.bootstrap_servers, "in", numbers(3))
                await run.idle()
                run.stop()
                await run.until_ended()

    asyncio.run(scenario())
    assert seen == numbers(3)
