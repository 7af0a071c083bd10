"""Turns of tasks over sockets, without Spark."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from semel.errors import ConfigError
from semel.spark.turn_client import TaskTurns
from semel.spark.turn_messages import TurnAddress
from semel.spark.turn_service import DriverAddress, TurnService
from semel.spark.turns import Attempt, TurnRefused
from semel.types import TopicPartition

HOST = "127.0.0.1"
AT_HOME = DriverAddress(HOST, HOST, ports=(0,))
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def with_turns(scenario: Callable[[TurnService, TurnAddress], Awaitable[None]]) -> None:
    async def run() -> None:
        turns = TurnService()
        address = await turns.open(AT_HOME)
        try:
            async with asyncio.timeout(20):
                await scenario(turns, address)
        finally:
            await turns.close()

    asyncio.run(run())


@asynccontextmanager
async def task(
    address: TurnAddress, number: int, attempt_id: int | None = None
) -> AsyncIterator[TaskTurns]:
    turns = TaskTurns(address, Attempt(number, number if attempt_id is None else attempt_id))
    await turns.connect()
    async with asyncio.TaskGroup() as group:
        group.create_task(turns.listen())
        try:
            yield turns
        finally:
            await turns.close()


def test_sequences_follow_each_other_and_nobody_writes_beside_another() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        writing: set[TopicPartition] = set()
        ends = {FIRST: 0, SECOND: 0}
        written: dict[Attempt, dict[TopicPartition, int]] = {}

        async def work(number: int) -> None:
            counts = written[Attempt(number, number)] = {FIRST: 0, SECOND: 0}
            async with task(address, number) as own:
                for count in range(1, 30):
                    place = (FIRST, SECOND)[(number + count) % 2]
                    assert await own.take(place, count) == ends[place]
                    assert place not in writing
                    writing.add(place)
                    ends[place] += count
                    counts[place] += count
                    await asyncio.sleep(0)
                    writing.discard(place)
                    own.give_back(place)
                await own.finish()

        async with asyncio.TaskGroup() as tasks:
            for number in range(4):
                tasks.create_task(work(number))
        turns.check(written)
        with pytest.raises(TurnRefused, match="task 1 has written what its result does not say"):
            turns.check({**written, Attempt(1, 1): {FIRST: 1}})
        with pytest.raises(TurnRefused, match="task 3 has written"):
            turns.check({each: counts for each, counts in written.items() if each != (3, 3)})
        with pytest.raises(TurnRefused, match="it had no turn"):
            turns.check({**written, Attempt(9, 9): {FIRST: 1}})

    with_turns(scenario)


def test_another_attempt_of_a_task_gets_no_turn_and_does_no_harm() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        async with task(address, 7, attempt_id=1) as own:
            assert await own.take(FIRST, 3) == 0
            async with task(address, 7, attempt_id=2) as again:
                with pytest.raises(TurnRefused, match="task 7 was started again"):
                    await again.take(SECOND, 1)
            own.give_back(FIRST)
            assert await own.take(FIRST, 1) == 3
            own.give_back(FIRST)
            await own.finish()
        turns.check({Attempt(7, 1): {FIRST: 4}})
        async with task(address, 7, attempt_id=3) as late:
            with pytest.raises(TurnRefused, match="task 7 was started again"):
                await late.take(SECOND, 1)
        turns.check({Attempt(7, 1): {FIRST: 4}})

    with_turns(scenario)


def test_when_a_task_ends_within_its_turns_nobody_gets_any() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        async with task(address, 1) as other:
            async with task(address, 0) as own:
                assert await own.take(FIRST, 3) == 0
                async with asyncio.TaskGroup() as tasks:
                    waiting = tasks.create_task(refusal(other.take(FIRST, 1)))
                    # Answers come in the order of the questions, so that the other one waits now.
                    await asyncio.sleep(0)
                    assert await other.take(SECOND, 1) == 0
                    await own.close()
                assert "has ended within its turns" in waiting.result()
            with pytest.raises(TurnRefused, match="has ended within its turns"):
                await other.take(TopicPartition("t", 2), 1)
        async with task(address, 2) as later:
            with pytest.raises(TurnRefused, match="has ended within its turns"):
                await later.take(SECOND, 1)
        with pytest.raises(TurnRefused):
            turns.check({Attempt(0, 0): {FIRST: 3}})

    with_turns(scenario)


def test_why_a_task_has_failed_is_told_to_the_others_and_to_its_next_attempt() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        async with task(address, 1) as other:
            async with task(address, 0) as own:
                assert await own.take(FIRST, 3) == 0
                await own.give_up(ConfigError("a record is too " + "long " * 50_000))
            said = await refusal(other.take(SECOND, 1))
            assert "failed within its turns: semel.errors.ConfigError: a record is too long" in said
        async with task(address, 0, attempt_id=7) as again:
            assert "semel.errors.ConfigError" in await refusal(again.take(SECOND, 1))

    with_turns(scenario)


async def refusal(asked: Awaitable[int]) -> str:
    with pytest.raises(TurnRefused) as refused:
        await asked
    return str(refused.value)


def test_an_attempt_that_ended_before_its_first_turn_may_be_repeated() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        async with task(address, 0) as own:
            assert await own.take(FIRST, 3) == 0
            async with task(address, 1, attempt_id=10) as early, asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(refusal(early.take(FIRST, 5)))
                await asyncio.sleep(0)
                await early.close()
            assert "the driver has gone" in waiting.result()
            async with task(address, 1, attempt_id=11) as again:
                assert await again.take(SECOND, 2) == 0
                own.give_back(FIRST)
                assert await again.take(FIRST, 2) == 3
                for place in (FIRST, SECOND):
                    again.give_back(place)
                await again.finish()
            await own.finish()
        turns.check({Attempt(0, 0): {FIRST: 3}, Attempt(1, 11): {FIRST: 2, SECOND: 2}})

    with_turns(scenario)


@pytest.mark.parametrize("left", [b"", b'{"type": "granted", "place": ["t", 0], "seq', b"\xff\n"])
def test_a_driver_that_dies_within_a_word_leaves_nobody_waiting(left: bytes) -> None:
    async def run() -> None:
        async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            await reader.readline()
            writer.write(left)
            writer.close()

        async with asyncio.timeout(20), await asyncio.start_server(die, HOST, 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with task(TurnAddress(HOST, port, ""), 0) as own:
                assert "the driver has gone" in await refusal(own.take(FIRST, 1))
                with pytest.raises(TurnRefused):
                    await own.finish()

    asyncio.run(run())


def test_moves_that_are_against_the_rules_end_the_turns_of_all() -> None:
    async def give_what_is_not_its_own(turns: TaskTurns) -> None:
        turns.give_back(SECOND)

    async def finish_too_early(turns: TaskTurns) -> None:
        await turns.finish()

    for move in (give_what_is_not_its_own, finish_too_early):

        async def scenario(turns: TurnService, address: TurnAddress) -> None:
            async with task(address, 0) as own, task(address, 1) as other:
                assert await own.take(FIRST, 3) == 0
                with suppress(TurnRefused):
                    await move(own)  # noqa: B023 - it is run within the loop.
                assert "has ended within its turns" in await refusal(other.take(FIRST, 1))
            with pytest.raises(TurnRefused):
                turns.check({Attempt(0, 0): {FIRST: 3}})

        with_turns(scenario)


def test_where_a_driver_cannot_listen_the_setting_is_named() -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1, where spark\.driver\.bindAddress"):
        asyncio.run(TurnService().open(AT_HOME._replace(bind_host="192.0.2.1")))


def test_strangers_get_nothing_and_change_nothing() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        async with task(address, 0) as own:
            assert await own.take(FIRST, 3) == 0
            async with task(address._replace(secret="guessed"), 1) as stranger:
                with pytest.raises(TurnRefused, match="the driver has gone, or has ended"):
                    await stranger.take(SECOND, 1)
            for junk in (
                b"\n",
                b"[]\n",
                b"\xff\xfe",
                b"{}\n",
                b"x" * 100_000 + b"\n",
                b"[" * 9_000 + b"\n",
            ):
                reader, writer = await asyncio.open_connection(address.host, address.port)
                writer.write(junk)
                writer.write_eof()
                assert await reader.read() == b""
                writer.close()
            own.give_back(FIRST)
            assert await own.take(FIRST, 1) == 3
            own.give_back(FIRST)
            await own.finish()
        turns.check({Attempt(0, 0): {FIRST: 4}})

    with_turns(scenario)


def test_a_driver_that_has_ended_the_batch_or_is_not_there_is_named() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        async with task(address, 0) as own:
            assert await own.take(FIRST, 3) == 0
            await turns.close()
            with pytest.raises(TurnRefused, match=r"^the driver has ended this batch"):
                await own.take(SECOND, 1)
        with pytest.raises(TurnRefused, match=r"cannot be reached at 127\.0\.0\.1:\d+"):
            await TaskTurns(address, Attempt(1, 1)).connect()

    with_turns(scenario)


def test_who_never_says_hello_is_let_go_when_the_batch_ends() -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        # Answers come in the order of connections, so that the silent one was accepted.
        async with task(address, 0) as own:
            assert await own.take(FIRST, 1) == 0
        await turns.close()
        assert await reader.read() == b""
        writer.close()

    with_turns(scenario)


def test_a_port_that_is_taken_is_passed_by_until_there_are_no_more() -> None:
    async def run() -> None:
        first, second = TurnService(), TurnService()
        port = (await first.open(AT_HOME)).port
        with pytest.raises(ConfigError, match=rf"ports {port} to {port} \(driver_port"):
            await second.open(AT_HOME._replace(ports=(port,)))
        assert (await second.open(AT_HOME._replace(ports=(port, 0)))).port != port
        for each in (first, second):
            await each.close()

    asyncio.run(run())


# Between 1 and 3 it is asyncio that has accepted it and drops it.
@pytest.mark.parametrize("round_count", [0, 1, 3, 4, 5])
def test_who_comes_just_before_the_end_is_let_go_too(round_count: int) -> None:
    async def run() -> None:
        turns = TurnService()
        address = await turns.open(AT_HOME)
        with socket.create_connection((address.host, address.port)) as silent:
            silent.setblocking(False)
            for _ in range(round_count):
                await asyncio.sleep(0)
            await turns.close()
            async with asyncio.timeout(20):
                with suppress(ConnectionResetError):
                    assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""

    asyncio.run(run())


def test_a_driver_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_answer(host: str, port: int) -> None:
        raise TimeoutError

    monkeypatch.setattr(asyncio, "open_connection", no_answer)
    with pytest.raises(TurnRefused, match=r"at driver:9: no answer; .*driver_port"):
        asyncio.run(TaskTurns(TurnAddress("driver", 9, ""), Attempt(0, 0)).connect())


def test_a_task_that_breaks_the_rules_is_in_the_log_of_the_driver(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(turns: TurnService, address: TurnAddress) -> None:
        async with task(address, 0) as own:
            own.give_back(SECOND)
            assert "the driver has gone" in await refusal(own.take(FIRST, 1))

    with_turns(scenario)
    assert "it is not its turn in t-1" in caplog.text
