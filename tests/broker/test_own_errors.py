"""An error of the broker's own ends the connection it came on, and not the broker."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest

from semel.broker import dispatch
from semel.broker.answer import Answer
from semel.broker.server import Server
from semel.errors import JournalFailed
from semel.journal.file.memory import MemoryDevice
from semel.lane import frame
from semel.lane.duties import Duties
from semel.records.records import Record, encode_batch
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.fetch import FetchRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from support.broker_in_thread import BrokerInThread
from support.compiled import plain_python
from support.handled import call, opened, started
from support.inside import state_of
from support.raw_client import (
    BY_MODULE,
    RawClient,
    encoded,
    fetch_request,
    fetched_values,
    produce,
    produce_request,
    produce_values,
    request_frame,
)
from support.seeded_loop import elapse, run


class Mistake(Exception):
    """What nobody has foreseen."""


def mistaken(*_: object) -> NoReturn:
    raise Mistake


async def mistaken_later(*_: object) -> Answer:
    await asyncio.sleep(0)
    raise Mistake


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerInThread]:
    with BrokerInThread(tmp_path / "data") as broker:
        yield broker


def handle(patch: pytest.MonkeyPatch, module: str, handler: Any) -> None:
    """Let requests of this API be handled so."""
    key = BY_MODULE[module].key
    patch.setitem(dispatch._routes, key, dispatch.route(key)._replace(handler=handler))


@pytest.mark.parametrize("handler", [mistaken, mistaken_later])
def test_an_unforeseen_error_closes_its_connection_alone_and_without_a_reply(
    broker: BrokerInThread, monkeypatch: pytest.MonkeyPatch, handler: Any
) -> None:
    handle(monkeypatch, "heartbeat", handler)
    beat = encoded("heartbeat", 3, HeartbeatRequest("g", 1, "m"))
    with RawClient(broker) as other, RawClient(broker) as unlucky:
        other.create_topic("t")
        produce_values(unlucky, "t", [b"before"])
        unlucky.send(request_frame("heartbeat", 3, beat))
        assert unlucky.is_closed_by_broker
        produce_values(other, "t", [b"after"])
        assert fetched_values(other, "t") == [b"before", b"after"]
    assert broker.broker.metrics.requests_failed == 1


def test_7_a_producer_is_never_told_of_an_unknown_error_and_its_retry_is_stored_once(
    broker: BrokerInThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = encode_batch([Record(None, b"x", 1)], producer_id=7, producer_epoch=0, base_sequence=0)
    sending = request_frame("produce", 9, encoded("produce", 9, produce_request("t", batch)))
    with RawClient(broker) as client:
        client.create_topic("t")
        with monkeypatch.context() as patch, RawClient(broker) as unlucky:
            handle(patch, "produce", mistaken)
            unlucky.send(sending)
            assert unlucky.is_closed_by_broker
        answers = [produce(client, "t", batch) for _ in range(2)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 0)]
        assert fetched_values(client, "t") == [b"x"]


def test_an_error_behind_a_request_that_waited_closes_its_connection_alone(
    broker: BrokerInThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle(monkeypatch, "heartbeat", mistaken)
    fetch: FetchRequest = fetch_request("t", 0, max_wait_ms=60_000)
    beat = encoded("heartbeat", 3, HeartbeatRequest("g", 1, "m"))
    with RawClient(broker) as other, RawClient(broker) as unlucky:
        other.create_topic("t")
        unlucky.send(
            request_frame("fetch", 11, encoded("fetch", 11, fetch))
            + request_frame("heartbeat", 3, beat)
        )
        produce_values(other, "t", [b"what it waits for"])
        while unlucky.receive() is not None:
            pass
        assert fetched_values(other, "t") == [b"what it waits for"]


def topic(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, 1, 1)])


@plain_python
def test_an_error_within_a_step_ends_the_broker_before_anything_is_built_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = Random(1)
    device = MemoryDevice(rng)

    async def torn() -> None:
        broker = opened(device, rng)
        async with started(broker):
            await call(broker, "create_topics", 7, topic("whole"))
            with monkeypatch.context() as patch:
                patch.setattr(frame, "pack_entry", mistaken)
                with pytest.raises(Mistake):
                    await call(broker, "create_topics", 7, topic("torn"))
            # Whether or not anyone has told the lane of it.
            with pytest.raises(JournalFailed):
                await call(broker, "create_topics", 7, topic("behind"))
            await elapse(1)

    async def next_process() -> set[str]:
        broker = opened(device, rng)
        async with started(broker):
            await call(broker, "create_topics", 7, topic("next"))
            return {topic.name for topic in state_of(broker).catalogue}

    with pytest.raises(ExceptionGroup) as ended:
        run(rng, torn())
    assert ended.group_contains(JournalFailed)
    device.kill()
    assert run(rng, next_process()) == {"whole", "next"}


def test_a_duty_that_fails_keeps_no_other_from_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(1)
    rounds = []
    monkeypatch.setattr(Duties, "_expire_producers", mistaken)
    monkeypatch.setattr(Server, "close_idle", lambda _: rounds.append(1))

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            await elapse(10)
            await call(broker, "create_topics", 7, topic("served"))

    run(rng, main())
    assert len(rounds) > 3
