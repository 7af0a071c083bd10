"""What strangers make the broker do takes its share of the time, and each address has its turn."""

import asyncio
from random import Random

import pytest

from semel.broker.turns import CREDIT_S, Turns
from support.seeded_loop import elapse, run

COST_S = 0.01


async def begun(turns: Turns, host: str, order: list[str]) -> None:
    await turns.begin(host, COST_S)
    order.append(host)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_it_takes_no_more_than_its_share_however_many_come(share: float) -> None:
    async def main() -> None:
        turns, order = Turns(share, one_at_a_time=False), list[str]()
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(begun(turns, "h", order)) for _ in range(2_000)]
            for second in range(1, 5):
                await elapse(1)
                most = (share * second + CREDIT_S) / COST_S
                assert len(order) == pytest.approx(min(2_000, most), abs=2)
            for each in waiting:
                each.cancel()

    run(Random(1), main())


def test_one_address_does_not_keep_the_others_waiting() -> None:
    async def main() -> None:
        turns, order = Turns(0.1, one_at_a_time=False), list[str]()
        turns.spend(1)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(100):
                tasks.create_task(begun(turns, "many", order))
            await elapse(0.01)
            for host in ("few", "other"):
                tasks.create_task(begun(turns, host, order))
        assert set(order[1:4]) == {"few", "other", "many"}
        assert order.count("many") == 100

    run(Random(1), main())


def test_one_at_a_time_begins_when_the_one_before_has_ended() -> None:
    async def main() -> None:
        turns = Turns(1.0, one_at_a_time=True)
        at_once = most = 0

        async def work() -> None:
            nonlocal at_once, most
            await turns.begin("h")
            at_once += 1
            most = max(most, at_once)
            await elapse(0.1)
            at_once -= 1
            turns.spend(0.1)
            turns.end()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(10):
                tasks.create_task(work())
        assert most == 1

    run(Random(1), main())


def test_who_goes_while_waiting_takes_nobodys_turn() -> None:
    async def main() -> None:
        turns, order = Turns(0.1, one_at_a_time=True), list[str]()
        await turns.begin("first")
        async with asyncio.TaskGroup() as tasks:
            gone = [tasks.create_task(begun(turns, "gone", order)) for _ in range(3)]
            stays = tasks.create_task(begun(turns, "stays", order))
            await elapse(0.1)
            for each in gone:
                each.cancel()
            await elapse(0.1)
            turns.end()
            await stays
        assert order == ["stays"]
        assert not turns._waiting

    run(Random(1), main())
