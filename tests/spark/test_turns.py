"""Turns of tasks, without Spark: one writer at a time in each partition, sequences without gaps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from semel.spark.turns import Address, Attempt, TaskTurns, TurnRefused, Turns
from semel.types import SEQUENCE_COUNT, TopicPartition

HOST = "127.0.0.1"
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def with_turns(scenario: Callable[[Turns, Address], Awaitable[None]]) -> None:
    async def run() -> None:
        turns = Turns()
        address = await turns.open(HOST, HOST)
        try:
            async with asyncio.timeout(20):
                await scenario(turns, address)
        finally:
            await turns.close()

    asyncio.run(run())


@asynccontextmanager
async def task(
    address: Address, number: int, attempt_id: int | None = None
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
    async def scenario(turns: Turns, address: Address) -> None:
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


def test_sequences_begin_again_behind_the_last() -> None:
    async def scenario(turns: Turns, address: Address) -> None:
        async with task(address, 0) as own:
            assert await own.take(FIRST, SEQUENCE_COUNT - 2) == 0
            own.give_back(FIRST)
            assert await own.take(FIRST, 5) == SEQUENCE_COUNT - 2
            own.give_back(FIRST)
            assert await own.take(FIRST, 1) == 3

    with_turns(scenario)


def test_another_attempt_of_a_task_gets_no_turn_and_does_no_harm() -> None:
    async def scenario(turns: Turns, address: Address) -> None:
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
    async def scenario(turns: Turns, address: Address) -> None:
        async with task(address, 1) as other:
            async with task(address, 0) as own:
                assert await own.take(FIRST, 3) == 0
                async with asyncio.TaskGroup() as tasks:
                    waiting = tasks.create_task(refusal(other.take(FIRST, 1)))
                    await asyncio.sleep(0)
                    await own.close()
                assert "has ended within its turns" in waiting.result()
            with pytest.raises(TurnRefused, match="has ended within its turns"):
                await other.take(SECOND, 1)
        async with task(address, 2) as later:
            with pytest.raises(TurnRefused, match="has ended within its turns"):
                await later.take(SECOND, 1)
        with pytest.raises(TurnRefused):
            turns.check({Attempt(0, 0): {FIRST: 3}})

    with_turns(scenario)


async def refusal(asked: Awaitable[int]) -> str:
    with pytest.raises(TurnRefused) as refused:
        await asked
    return str(refused.value)


def test_strangers_get_nothing_and_change_nothing() -> None:
    async def scenario(turns: Turns, address: Address) -> None:
        async with task(address, 0) as own:
            assert await own.take(FIRST, 3) == 0
            async with task(address._replace(secret="guessed"), 1) as stranger:
                with pytest.raises(TurnRefused, match="the driver has gone, or has ended"):
                    await stranger.take(SECOND, 1)
            for junk in (b"\n", b"[]\n", b"\xff\xfe", b"{}\n", b"x" * 100_000 + b"\n"):
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
    async def scenario(turns: Turns, address: Address) -> None:
        async with task(address, 0) as own:
            assert await own.take(FIRST, 3) == 0
            await turns.close()
            with pytest.raises(TurnRefused, match="has ended this batch"):
                await own.take(SECOND, 1)
        with pytest.raises(TurnRefused, match=r"cannot be reached at 127\.0\.0\.1:\d+"):
            await TaskTurns(address, Attempt(1, 1)).connect()

    with_turns(scenario)
