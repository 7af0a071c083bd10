"""The client without an event loop: results, errors, early ends, and forked processes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from client.leaver import Leaver
from semel.client.cluster.blocking import ClientOptions, Connected, shared
from semel.errors import NotInOrder
from semel.testing import Broker

NOWHERE = ClientOptions("127.0.0.1:1")


def test_results_and_errors_come_back() -> None:
    async def divided(by: int) -> float:
        return 6 / by

    with Connected(NOWHERE) as connected:
        assert connected.run(divided(3)) == 2
        with pytest.raises(ZeroDivisionError):
            connected.run(divided(0))


def test_an_iteration_that_ends_early_is_closed() -> None:
    ended = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            ended.append(True)

    with Connected(NOWHERE) as connected:
        assert list(connected.iterate(numbers())) == list(range(10))
        steps = connected.iterate(numbers())
        assert next(steps) == 0
        assert ended == [True]
        steps.close()  # type: ignore[attr-defined]
        assert ended == [True, True]


def test_closing_twice_is_closing() -> None:
    connected = Connected(NOWHERE)
    connected.close()
    connected.close()


def test_what_is_closed_says_so() -> None:
    with Connected(NOWHERE) as connected:
        pass
    with pytest.raises(NotInOrder, match="the client is closed"):
        connected.run(asyncio.sleep(0))


def test_a_job_may_not_wait_for_its_own_thread() -> None:
    with Connected(NOWHERE) as connected:

        async def job() -> None:
            connected.run(asyncio.sleep(0))

        with pytest.raises(NotInOrder, match="wait for itself"):
            connected.run(job())


def test_an_interrupted_job_has_ended_when_the_interruption_is_raised() -> None:
    leaver = Leaver()

    async def job() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await leaver.work()

    with Connected(NOWHERE) as connected:
        with pytest.raises(KeyboardInterrupt):
            connected.run(job())
        assert leaver.has_left


def test_a_job_that_is_given_up_has_ended() -> None:
    leaver = Leaver()
    with Connected(NOWHERE) as connected:
        started = connected.start(leaver.work())
        # The loop has begun with it once it has done what was asked for behind it.
        connected.run(asyncio.sleep(0))
        started.give_up()
        assert leaver.has_left
        started.give_up()


def test_a_connection_is_shared_in_a_process_and_made_anew_in_its_forks(
    semel_broker: Broker,
) -> None:
    program = f"""
import os, warnings
warnings.simplefilter("ignore")  # Newer Pythons warn of forks beside threads.
from semel.client.cluster.blocking import ClientOptions, shared
options = ClientOptions("{semel_broker.bootstrap_servers}")
def ask():
    connected = shared(options)
    assert connected is shared(ClientOptions("{semel_broker.bootstrap_servers}"))
    return len(connected.run(connected.cluster.describe(())).brokers)
assert ask() == 1
child = os.fork()
if child == 0:
    os._exit(0 if ask() == 1 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert ask() == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_options_are_equal_by_value() -> None:
    first, second = shared(NOWHERE), shared(ClientOptions("127.0.0.1:1"))
    assert first is second
    first.close()
