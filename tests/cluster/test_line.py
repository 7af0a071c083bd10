"""A line to another node: given up when nothing is heard over it any more, and only then."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

import pytest

from semel.cluster import messages
from semel.cluster.channel import Channel, NodeAway
from semel.cluster.line import Line
from semel.cluster.messages import AnyAnswer, Numbered, Prepare, Ready
from support import seeded_loop

PATIENCE_S = 1.0


class FakeChannel:
    """What is said over it arrives nowhere; what is heard is up to the test."""

    def __init__(self) -> None:
        self.is_closed = False
        self.answer: Callable[[AnyAnswer], None]
        self.may_place = False
        self.signed_count = self.written_count = 0

    def signed(self, request: Numbered) -> bytes:
        self.signed_count += 1
        return b""

    def write(self, data: bytes) -> None:
        self.written_count += 1

    def place(self, data: bytes) -> bool:
        if self.may_place:
            self.written_count += 1
        return self.may_place

    def close(self) -> None:
        self.is_closed = True

    def hear(self, hear: Callable[[AnyAnswer], None], end: Callable[[str], None]) -> None:
        self.answer = hear


def with_line(
    scenario: Callable[[FakeChannel, Line], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    def test() -> None:
        async def main() -> None:
            channel = FakeChannel()
            line = Line(cast(Channel, channel))
            await scenario(channel, line)
            line.close()

        seeded_loop.run(Random(1), main())

    test.__name__ = scenario.__name__
    return test


def ask(line: Line) -> "asyncio.Task[AnyAnswer]":
    return asyncio.get_running_loop().create_task(line.ask(Prepare(), PATIENCE_S))


@with_line
async def test_one_over_which_nothing_is_heard_is_given_up(
    channel: FakeChannel, line: Line
) -> None:
    """Neither end is told if what lies between them forgets the connection."""
    asked = ask(line)
    await seeded_loop.elapse(PATIENCE_S / 2)
    later = ask(line)
    with pytest.raises(NodeAway):
        await asked
    await seeded_loop.elapse(0.01)
    assert channel.is_closed
    assert not line.is_open
    with pytest.raises(NodeAway):
        await later


@with_line
async def test_one_that_has_answered_others_meanwhile_stays(
    channel: FakeChannel, line: Line
) -> None:
    slow = ask(line)
    await seeded_loop.elapse(PATIENCE_S / 2)
    quick = ask(line)
    await seeded_loop.elapse(0.01)
    channel.answer(Numbered(2, messages.encode(Ready(7))))
    assert await quick == Ready(7)
    with pytest.raises(NodeAway):
        await slow
    await seeded_loop.elapse(0.01)
    assert line.is_open


@with_line
async def test_one_over_which_nothing_is_heard_is_given_up_though_nobody_waits_so_long(
    channel: FakeChannel, line: Line
) -> None:
    """As clients come back whose requests wait for a call, and lose patience each time."""
    for _ in range(5):
        asked = ask(line)
        await seeded_loop.elapse(PATIENCE_S / 4)
        asked.cancel()
    await seeded_loop.elapse(0.01)
    assert channel.is_closed
    assert not line.is_open


@with_line
async def test_one_that_has_answered_after_a_call_was_given_up_stays(
    channel: FakeChannel, line: Line
) -> None:
    asked = ask(line)
    await seeded_loop.elapse(PATIENCE_S / 2)
    asked.cancel()
    await seeded_loop.elapse(0.01)
    channel.answer(Numbered(1, messages.encode(Ready(7))))
    await seeded_loop.elapse(PATIENCE_S)
    assert line.is_open


@with_line
async def test_an_answer_that_is_not_understood_is_that_of_its_call_alone(
    channel: FakeChannel, line: Line
) -> None:
    """A newer version may have answers that this one does not know."""
    first = ask(line)
    await seeded_loop.elapse(0.01)
    second = ask(line)
    await seeded_loop.elapse(0.01)
    channel.answer(Numbered(1, messages.encode(["Unknown", 7])))
    channel.answer(Numbered(2, messages.encode(Ready(7))))
    with pytest.raises(NodeAway, match="its answer is not understood"):
        await first
    assert await second == Ready(7)
    assert line.is_open


@with_line
async def test_what_is_signed_is_written(channel: FakeChannel, line: Line) -> None:
    """Its code counts what was signed before: with a gap the other end closes the connection."""
    for channel.may_place in (False, True):
        assert line.tell(Prepare()) is channel.may_place
        assert channel.signed_count == channel.written_count == channel.may_place
