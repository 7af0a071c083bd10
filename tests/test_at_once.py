"""What goes on in the step in which what it waits for happens."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.at_once import Awaited, Run, Runs


def on_a_loop(scenario: Callable[[Runs], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            await scenario(Runs(loop.create_task))

        asyncio.run(main())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


@on_a_loop
async def test_it_goes_on_before_what_it_waited_for_returns(runs: Runs) -> None:
    first, second = Awaited[int](), Awaited[int]()
    ended: list[bool] = []

    async def work() -> int:
        return await first + await second

    run = runs.begin(work(), lambda: ended.append(True))
    first.give(1)
    assert not run.done()
    second.give(2)
    assert (run.result(), ended, list(runs.unfinished)) == (3, [True], [])


@on_a_loop
async def test_one_awaits_another(runs: Runs) -> None:
    happens = Awaited[str]()

    async def inner() -> str:
        return await happens

    async def outer() -> str:
        return await runs.begin(inner()) + "!"

    run = runs.begin(outer())
    happens.give("said")
    assert run.result() == "said!"


@on_a_loop
async def test_what_fails_is_raised_where_it_is_awaited(runs: Runs) -> None:
    happens = Awaited[None]()

    async def work() -> str:
        try:
            await happens
        except ValueError as error:
            return str(error)
        raise AssertionError

    run = runs.begin(work())
    happens.fail(ValueError("why"))
    happens.give(None)
    assert run.result() == "why"


@on_a_loop
async def test_with_something_else_the_rest_of_it_becomes_a_task(runs: Runs) -> None:
    """Which may need one, and has it from there on."""
    happens = Awaited[int]()

    async def work() -> int:
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        return await happens

    run = runs.begin(work())
    await asyncio.sleep(0.01)
    assert not run.done()
    happens.give(7)
    assert await run == 7


@on_a_loop
async def test_what_is_cancelled_is_so_for_who_waits_and_for_nobody_else(runs: Runs) -> None:
    """A task that is cancelled cancels what it waits for."""
    happens, begins = Awaited[None](), Awaited[None]()

    async def work() -> None:
        await begins
        await happens

    run = runs.begin(work())
    happens.cancel()
    begins.give(None)
    assert (run.cancelled(), list(runs.unfinished)) == (True, [])


@on_a_loop
async def test_what_two_wait_for_both_hear(runs: Runs) -> None:
    happens = Awaited[int]()

    async def work() -> int:
        return await happens

    both = [runs.begin(work()), runs.begin(work())]
    happens.give(3)
    assert [await run for run in both] == [3, 3]


@pytest.mark.parametrize("is_task", [False, True], ids=["as it is", "as a task"])
def test_its_owner_ends_it(is_task: bool) -> None:
    @on_a_loop
    async def scenario(runs: Runs) -> None:
        happens = Awaited[None]()
        said: list[str] = []

        async def work() -> None:
            try:
                if is_task:
                    await asyncio.sleep(0)
                await happens
                said.append("went on")
            finally:
                said.append("ended")

        run: Run[None] = runs.begin(work(), lambda: said.append("told"))
        await asyncio.sleep(0.01)
        runs.stop()
        await asyncio.sleep(0.01)
        happens.cancel() if happens.done() else happens.give(None)
        assert (said, run.cancelled(), list(runs.unfinished)) == (["ended", "told"], True, [])

    scenario()
