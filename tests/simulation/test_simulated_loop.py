"""The loop of the simulator: time jumps, schedules come from the seed, the dead do nothing more."""

import asyncio

import pytest

from semel.verify.world.loop import Deadlock, OutOfTime, Process, SimulatedLoop, simulate


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(3000)
        return asyncio.get_running_loop().time()

    assert simulate(1, main) == pytest.approx(3000)


def schedule_of(seed: int) -> list[int]:
    async def main() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_soon(order.append, number)
        await asyncio.sleep(1)
        return order

    return simulate(seed, main)


def test_the_seed_decides_the_order_of_what_is_ready() -> None:
    assert schedule_of(1) == schedule_of(1)
    assert sorted(schedule_of(1)) == list(range(20))
    assert len({tuple(schedule_of(seed)) for seed in range(5)}) == 5


def test_waiting_for_what_no_one_will_do_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        simulate(1, main)


def test_a_run_that_goes_on_for_ever_is_out_of_time() -> None:
    async def main() -> None:
        for _ in iter(int, 1):
            await asyncio.sleep(1)

    with pytest.raises(OutOfTime):
        simulate(1, main, budget_s=50)


def test_a_dead_process_runs_no_callback_and_no_finally() -> None:
    deeds: list[str] = []

    async def work(process: Process) -> None:
        asyncio.get_running_loop().call_later(5, deeds.append, "timer")
        try:
            deeds.append("began")
            await asyncio.sleep(10)
            deeds.append("went on")
        finally:
            deeds.append("tidied up")

    async def main() -> None:
        process = Process("mortal")
        process.start(work(process))
        await asyncio.sleep(1)
        process.die()
        await asyncio.sleep(100)
        assert deeds == ["began"]
        process.bury()

    simulate(1, main)


def test_a_process_does_not_take_others_with_it() -> None:
    async def main() -> list[str]:
        deeds: list[str] = []
        mortal, survivor = Process("mortal"), Process("survivor")
        for process in (mortal, survivor):
            process.call(asyncio.get_running_loop().call_later, 2, deeds.append, process.name)
        await asyncio.sleep(1)
        mortal.die()
        await asyncio.sleep(2)
        return deeds

    assert simulate(1, main) == ["survivor"]


def test_a_frozen_process_does_later_what_it_would_have_done() -> None:
    deeds: list[tuple[str, float]] = []

    async def work(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            deeds.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        frozen, other = Process("frozen"), Process("other")
        working = [frozen.start(work("frozen")), other.start(work("other"))]
        await asyncio.sleep(1.5)
        loop.freeze(frozen, 10)
        await asyncio.gather(*working)

    simulate(1, main)
    assert [at_s for name, at_s in deeds if name == "other"] == pytest.approx([1, 2, 3])
    assert [at_s for name, at_s in deeds if name == "frozen"] == pytest.approx([1, 11.5, 12.5])


def test_one_that_dies_while_it_is_frozen_does_nothing_more() -> None:
    deeds: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        process = Process("frozen")
        loop.freeze(process, 10)
        process.call(loop.call_soon, deeds.append, "done")
        await asyncio.sleep(1)
        process.die()
        await asyncio.sleep(20)

    simulate(1, main)
    assert deeds == []
