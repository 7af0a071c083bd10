"""What strangers make the broker do takes its share of the time, and each address has its turn."""

import asyncio
import threading
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.access.sasl import Plain
from semel.broker.door import Door, Gate
from semel.broker.reception import Reception
from semel.broker.sign_in import SignIn
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


def test_who_goes_in_the_moment_of_the_turn_stops_nobody() -> None:
    async def main() -> None:
        turns, order = Turns(0.1, one_at_a_time=True), list[str]()
        await turns.begin("first")
        async with asyncio.TaskGroup() as tasks:
            gone = tasks.create_task(begun(turns, "gone", order))
            stays = tasks.create_task(begun(turns, "stays", order))
            await elapse(0.1)
            turns.end()
            # The timer comes before the task hears that it is cancelled.
            gone.cancel()
            turns._call_next()
            await stays
        assert order == ["stays"]
        assert not turns._waiting

    run(Random(1), main())


class Knock(asyncio.Transport):
    """From another address each time."""

    def __init__(self, gate: Gate, number: int) -> None:
        super().__init__({"peername": (f"2001:db8:{number:x}::1", 4000)})
        self._door = Door(gate)
        self._door.connection_made(self)

    def pause_reading(self) -> None:
        """Nothing comes."""

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self._door.connection_lost, None)


def test_nobody_waits_for_a_handshake_who_has_gone() -> None:
    async def main() -> None:
        turns, reception = Turns(0.1, one_at_a_time=False), Reception(1_000, 5, 5)
        turns.spend(1_000)
        async with asyncio.TaskGroup() as tasks:
            gate: Any = SimpleNamespace(
                desk=SimpleNamespace(
                    server=SimpleNamespace(
                        start_task=tasks.create_task,
                        turned_away=lambda host, reason: None,
                        lets_come=lambda listener: True,
                    ),
                    handshakes=turns,
                    broker=SimpleNamespace(metering=SimpleNamespace(lets_in=lambda host: True)),
                ),
                reception=reception,
                listener=SimpleNamespace(name="OUTER"),
                certificates=SimpleNamespace(context=None),
                is_proxy=lambda host: False,
            )
            for number in range(50):
                Knock(cast(Gate, gate), number)
                await elapse(0.001)
            # As many as the reception holds, though others have come.
            assert len(reception) == len(turns._waiting) == 5
            await elapse(2)
            assert (len(reception), len(turns._waiting)) == (0, 0)

    run(Random(1), main())


def test_a_check_counts_to_its_end_though_who_asked_for_it_has_gone() -> None:
    may_end = threading.Event()

    async def main() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def is_of(password: bytes) -> bool:
            loop.call_soon_threadsafe(begun.set)
            return may_end.wait(10)

        check = SimpleNamespace(is_of=is_of, kept=object())
        turns = Turns(1.0, one_at_a_time=True)
        desk: Any = SimpleNamespace(
            checks=turns,
            disguise=SimpleNamespace(check=lambda users, name: check),
            server=SimpleNamespace(loop=loop),
            broker=SimpleNamespace(lanes=SimpleNamespace(users={})),
        )
        listener: Any = None
        visit: Any = SimpleNamespace(host="h")
        sign_in = SignIn(desk, listener, visit, None, has_tls=True)
        asking = asyncio.create_task(sign_in._check_password(Plain("ana", b"tulip")))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        following = asyncio.create_task(turns.begin("other"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not following.done()
        may_end.set()
        async with asyncio.timeout(10):
            await following

    try:
        asyncio.run(main())
    finally:
        may_end.set()
