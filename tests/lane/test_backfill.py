"""When old data is given while others append."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import cast

from semel.journal.seam import Journal
from semel.lane.partition_log import BACKFILL_BYTES, BACKFILL_PAUSE_S, WRITE_AWAITED_S, Backfill
from semel.types import Position
from support.seeded_loop import run

TICK_S = 1e-4


class Written:
    """A journal as far as it is asked here."""

    def __init__(self) -> None:
        self.frames_appended = 0
        self.written = Position(0)
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def when_written(self, position: Position, callback: Callable[[], None]) -> None:
        self._waiting.append((position, callback))

    def write(self) -> None:
        self.written = Position(self.written + 100)
        waiting, self._waiting = self._waiting, []
        for position, callback in waiting:
            assert position <= self.written, "nobody asks for more than the next write"
            callback()


def test_an_answer_leaves_right_behind_a_write() -> None:
    async def scenario() -> None:
        journal = Written()
        turn = asyncio.ensure_future(Backfill(cast(Journal, journal)).turn(BACKFILL_BYTES))
        await asyncio.sleep(WRITE_AWAITED_S / 2)
        assert not turn.done(), "the loop is the producers' until something is written"
        journal.write()
        await asyncio.sleep(TICK_S)
        assert turn.done()

    run(Random(1), scenario())


def test_where_nothing_is_written_an_answer_waits_no_longer_than_that() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        backfill = Backfill(cast(Journal, Written()))
        for turns in range(1, 4):
            await backfill.turn(BACKFILL_BYTES)
            longest_s = WRITE_AWAITED_S * turns + BACKFILL_PAUSE_S * (turns - 1)
            assert loop.time() <= longest_s + TICK_S

    run(Random(1), scenario())


def test_many_who_read_take_turns() -> None:
    async def scenario() -> None:
        journal = Written()
        backfill = Backfill(cast(Journal, journal))
        given: list[int] = []

        async def read(number: int) -> None:
            await backfill.turn(BACKFILL_BYTES)
            given.append(number)

        async with asyncio.TaskGroup() as readers:
            for number in range(3):
                readers.create_task(read(number))
            for number in range(3):
                await asyncio.sleep(TICK_S)
                journal.write()
                await asyncio.sleep(TICK_S)
                assert len(given) == number + 1
                await asyncio.sleep(BACKFILL_PAUSE_S - TICK_S)

    run(Random(1), scenario())


def test_who_has_gone_leaves_no_turn_behind() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        backfill = Backfill(cast(Journal, Written()))
        await backfill.turn(BACKFILL_BYTES)
        gone = [asyncio.ensure_future(backfill.turn(BACKFILL_BYTES)) for _ in range(5_000)]
        await asyncio.sleep(TICK_S)
        for each in gone:
            each.cancel()
        begun_s = loop.time()
        await backfill.turn(BACKFILL_BYTES)
        assert loop.time() - begun_s <= BACKFILL_PAUSE_S + WRITE_AWAITED_S + TICK_S

    run(Random(1), scenario())


def test_behind_a_large_answer_producers_have_a_longer_pause() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        backfill = Backfill(cast(Journal, Written()))
        await backfill.turn(10 * BACKFILL_BYTES)
        begun_s = loop.time()
        await backfill.turn(1)
        assert loop.time() - begun_s >= 10 * BACKFILL_PAUSE_S - WRITE_AWAITED_S
        begun_s = loop.time()
        await backfill.turn(1)
        assert loop.time() - begun_s <= BACKFILL_PAUSE_S + WRITE_AWAITED_S + TICK_S

    run(Random(1), scenario())
