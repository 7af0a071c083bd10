"""Who has a network of IPv6 has 2^64 addresses, and is one stranger all the same."""

import asyncio
from dataclasses import replace
from random import Random

from semel.access.quotas import EVERY_OTHER, Entity
from semel.broker.reception import Reception
from semel.broker.turns import Turns
from semel.lane.quotas import AlterQuotas
from support.handled import CONFIG, Machine, on_a
from support.seeded_loop import elapse, run
from support.wired_client import WiredClient


def address(number: int, network: int = 1) -> str:
    return f"2001:db8:0:{network:x}::{number:x}"


def test_its_handshakes_have_the_turns_of_one() -> None:
    async def main() -> None:
        turns, order = Turns(0.1, one_at_a_time=False), list[str]()
        turns.spend(1)

        async def begun(host: str) -> None:
            await turns.begin(host, 0.01)
            order.append(host)

        async with asyncio.TaskGroup() as tasks:
            for number in range(50):
                tasks.create_task(begun(address(number)))
            await elapse(0.01)
            tasks.create_task(begun("10.0.0.1"))
            gone = tasks.create_task(begun(address(60)))
            await elapse(0.01)
            gone.cancel()
        assert order.index("10.0.0.1") <= 1
        assert len(order) == 51

    run(Random(1), main())


def test_its_connections_hold_the_places_of_one() -> None:
    async def main() -> None:
        reception = Reception(1_000, 100, 3)
        visits = [reception.arrived(address(number), lambda reason: None) for number in range(5)]
        assert [visit is not None for visit in visits] == [True] * 3 + [False] * 2
        beside = reception.arrived(address(1, network=2), lambda reason: None)
        assert beside is not None
        # A proxy may bring them as well.
        assert not reception.is_from(beside, address(9))
        for visit in (*visits[:3], beside):
            assert visit is not None
            visit.over()
        assert not reception._by_host
        assert reception.arrived("::ffff:10.0.0.1", lambda reason: None)
        assert reception._by_host == {"10.0.0.1": 1}

    run(Random(1), main())


@on_a(Machine, replace(CONFIG, max_connections_per_ip=3))
async def test_its_clients_are_those_of_one(machine: Machine) -> None:
    async with machine.broker() as broker:
        clients = [WiredClient(broker, address(number)) for number in range(5)]
        assert [client.is_cut_off for client in clients] == [False] * 3 + [True] * 2
        assert not WiredClient(broker, address(1, network=2)).is_cut_off
        clients[0].leave()
        await elapse(0.1)
        assert not WiredClient(broker, address(7)).is_cut_off


@on_a(Machine)
async def test_it_connects_as_often_as_one_may(machine: Machine) -> None:
    async with machine.broker() as broker:
        for entity, rate in ((Entity(ip=EVERY_OTHER), 1.0), (Entity(ip=address(5)), 2.0)):
            command = AlterQuotas(entity, {"connection_creation_rate": rate})
            broker.lanes.controller.submit(command)
            broker.quotas_changed(entity)
        clients = [WiredClient(broker, address(100 + number)) for number in range(12)]
        assert [client.is_cut_off for client in clients] == [False] * 10 + [True] * 2
        # One with a quota of its own is counted by itself.
        named = [WiredClient(broker, address(5)) for _ in range(21)]
        assert [client.is_cut_off for client in named] == [False] * 20 + [True]
        assert clients[0].connection.caller.host == address(100)


@on_a(Machine)
async def test_an_address_of_ipv4_is_one_however_it_is_written(machine: Machine) -> None:
    async with machine.broker() as broker:
        client = WiredClient(broker, "::ffff:10.0.0.1")
        assert client.connection.caller.host == "10.0.0.1"
        assert client.connection.client_host == "/10.0.0.1"
