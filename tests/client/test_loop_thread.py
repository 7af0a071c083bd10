"""A loop in a thread: who waits for it gets an answer, whatever becomes of either."""

import asyncio
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator

import pytest

import semel
from client.leaver import Leaver
from semel.client.cluster.loop_thread import LoopThread
from semel.errors import ConfigError, NotInOrder
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics


class _Loop:
    """A thread that serves until it is told to end."""

    def __init__(self) -> None:
        self.thread = LoopThread("thing", self._main)

    async def _main(self, ready: Callable[[], None]) -> None:
        self._over = asyncio.Event()
        ready()
        await self._over.wait()

    def end(self) -> None:
        self.thread.wake(self._over.set)
        self.thread.join()


@pytest.fixture
def loop() -> Iterator[_Loop]:
    made = _Loop()
    yield made
    made.end()


def test_work_gives_what_it_returns_or_raises(loop: _Loop) -> None:
    async def work(number: int) -> int:
        if number < 0:
            raise LookupError(number)
        return number

    assert loop.thread.call(work(3)) == 3
    with pytest.raises(LookupError):
        loop.thread.call(work(-1))


def test_interrupted_work_has_ended_when_the_interruption_is_raised(loop: _Loop) -> None:
    leaver = Leaver()

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await leaver.work()

    with pytest.raises(KeyboardInterrupt):
        loop.thread.call(work())
    assert leaver.has_left


def test_nobody_waits_for_a_thread_that_ends(loop: _Loop) -> None:
    async def wait() -> None:
        loop.thread.wake(loop._over.set)
        await asyncio.Event().wait()

    with pytest.raises(NotInOrder, match="the thing is closed"):
        loop.thread.call(wait())
    loop.thread.join()
    with pytest.raises(NotInOrder, match="the thing is closed"):
        loop.thread.call(asyncio.sleep(0))


def test_work_in_the_thread_may_not_wait_for_it(loop: _Loop) -> None:
    async def work() -> None:
        loop.thread.call(asyncio.sleep(0))

    with pytest.raises(NotInOrder, match="wait for itself"):
        loop.thread.call(work())


def test_a_forked_process_is_refused_and_its_parent_goes_on(
    semel_broker: Broker, request: pytest.FixtureRequest
) -> None:
    servers, topic = semel_broker.bootstrap_servers, topics.name_for(request)
    topics.create(servers, topic, 1)
    with semel.Producer(servers) as producer, semel.Consumer(servers) as consumer:
        producer.send(topic, b"before").result(30)
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in consumer.poll(30_000)] == [b"before"]
        _do_forked(lambda: _be_refused(producer, consumer, topic))
        producer.send(topic, b"after").result(30)
        assert [each.value for each in consumer.poll(30_000)] == [b"after"]


def test_a_producer_that_could_not_be_made_leaves_a_fork_as_it_is(
    semel_broker: Broker, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, topic = semel_broker.bootstrap_servers, topics.name_for(request)
    topics.create(servers, topic, 1)
    untold: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: untold.append(each.exc_value))
    # What was raised holds the producer that raised it.
    with pytest.raises(ConfigError) as held, semel.Producer("one:port"):
        pass
    with semel.Producer(servers) as producer:
        producer.send(topic, b"before").result(30)

        def be_refused() -> None:
            with pytest.raises(NotInOrder, match="after the fork"):
                producer.send(topic, b"child")
            assert not untold

        _do_forked(be_refused)
    assert "not an address" in str(held.value)


def _be_refused(producer: semel.Producer, consumer: semel.Consumer, topic: str) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: producer.send(topic, b"child"),
        producer.flush,
        consumer.poll,
        lambda: next(consumer),
        consumer.lag,
    ]
    for attempt in attempts:
        with pytest.raises(NotInOrder, match="after the fork"):
            attempt()
    producer.close()
    consumer.close()
    assert threading.active_count() == 1


def _do_forked(act: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        # Python 3.12 and later warn of any fork beside threads: just that is tried here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _end_with(act)
    _, status = os.waitpid(child, 0)
    assert status == 0


def _end_with(act: Callable[[], object]) -> None:
    signal.alarm(30)
    status = 1
    try:
        act()
        status = 0
    except BaseException:  # noqa: BLE001 - nobody else could tell of it.
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
