"""A record that was not stored is told of, whoever forgets to ask."""

import asyncio
import weakref
from collections.abc import Iterator

import pytest

import semel
from semel.client.producing.failures import Failures
from semel.errors import MessageTooLarge, RequestTimedOut
from semel.testing import Broker

TOO_LARGE = b"x" * 200_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"message.max.bytes": 100_000}) as running:
        yield running


def test_leaving_the_block_raises_what_nobody_was_told(broker: Broker) -> None:
    with (
        pytest.raises(MessageTooLarge),
        semel.Producer(broker.bootstrap_servers) as producer,
    ):
        producer.send("left", TOO_LARGE)
    producer.close()


def test_a_flush_raises_it_once_and_the_producer_goes_on(broker: Broker) -> None:
    with semel.Producer(broker.bootstrap_servers) as producer:
        failed = [producer.send("flushed", TOO_LARGE) for _ in range(3)]
        with pytest.raises(MessageTooLarge) as caught:
            producer.flush()
        assert caught.value.__notes__ == ["and 2 more records were not stored"]
        stored = producer.send("flushed", b"small")
        producer.flush()
        assert stored.result(30).offset == 0
        assert all(isinstance(each.exception(), MessageTooLarge) for each in failed)


def test_both_are_so_on_the_callers_own_loop(broker: Broker) -> None:
    async def work() -> None:
        async with semel.AsyncProducer(broker.bootstrap_servers) as producer:
            await producer.send("async", TOO_LARGE)
            with pytest.raises(MessageTooLarge):
                await producer.flush()
            await producer.flush()
            failed = await producer.send("async", TOO_LARGE)
            with pytest.raises(MessageTooLarge):
                await failed
        with pytest.raises(MessageTooLarge):
            async with semel.AsyncProducer(broker.bootstrap_servers) as producer:
                await producer.send("async", TOO_LARGE)

    asyncio.run(work())


def test_whoever_waited_is_not_told_again(broker: Broker) -> None:
    with semel.Producer(broker.bootstrap_servers) as producer:
        with pytest.raises(MessageTooLarge):
            producer.send("waited", TOO_LARGE).result(30)
        producer.flush()


def test_whoever_looked_is_not_told_again(broker: Broker) -> None:
    with semel.Producer(broker.bootstrap_servers) as producer:
        failed = producer.send("looked", TOO_LARGE)
        # It is sent behind the other one.
        producer.send("looked", b"small").result(30)
        assert isinstance(failed.exception(), MessageTooLarge)
        producer.flush()


def test_a_callback_is_told(broker: Broker) -> None:
    called: list[object] = []
    with semel.Producer(broker.bootstrap_servers) as producer:
        producer.send("called", TOO_LARGE, on_delivery=called.append)
        producer.flush()
    assert len(called) == 1


def test_waiting_in_vain_is_not_being_told() -> None:
    with Broker() as gone:
        options = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 500}
        producer = semel.Producer(gone.bootstrap_servers, **options)  # type: ignore[arg-type]
        producer.send("t", b"x").result(30)
        gone.kill()
        sent = producer.send("t", b"y")
        with pytest.raises(TimeoutError):
            sent.result(0.01)
        with pytest.raises(RequestTimedOut, match="not stored within 1000 ms"):
            producer.close()


def test_the_error_that_left_the_block_is_not_hidden(broker: Broker) -> None:
    def leave() -> None:
        with semel.Producer(broker.bootstrap_servers) as producer:
            producer.send("hidden", TOO_LARGE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        leave()
    (note,) = caught.value.__notes__
    assert note.startswith("and 1 record was not stored: ")


def test_of_many_failures_the_first_untold_one_is_raised() -> None:
    failures = Failures()
    first, second = failures.note(KeyError("a"), 2), failures.note(KeyError("b"), 1)
    first.tell(0)
    first.tell(0)
    first.tell(1)
    with pytest.raises(KeyError, match="b"):
        failures.raise_untold()
    second.tell(0)
    failures.raise_untold()
    third, _, last = (failures.note(KeyError(name), 1) for name in "cde")
    second.tell(0)
    third.tell(0)
    last.tell(0)
    with pytest.raises(KeyError, match="d"):
        failures.raise_untold()


class Lost(Exception):
    """Unlike those built in, it has weak references, which tell whether it is kept."""


def test_failures_take_little_room_however_many_they_are() -> None:
    failures = Failures()
    kept: weakref.WeakSet[Lost] = weakref.WeakSet()
    for _ in range(1000):
        error = Lost()
        kept.add(error)
        failures.note(error, 1)
    del error
    assert len(kept) == 100
    with pytest.raises(Lost) as caught:
        failures.raise_untold()
    assert caught.value.__notes__ == ["and 999 more records were not stored"]
