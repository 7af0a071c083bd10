"""Copiers over three lanes while lanes are killed, lose power, and do not hear each other."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from broker.handled_producer import HandledProducer
from semel.broker.broker import Broker
from semel.errors import NONE, ProtocolError
from semel.lane.calls import AnyCall
from semel.types import TopicPartition
from support.handled import CONFIG
from support.seeded_loop import elapse, run
from support.several_lanes import (
    SeveralLanes,
    Wire,
    committed_offset,
    create,
    group_in,
    read,
    transactional_id_in,
)
from support.transactional_wire import TV1, TV2, Versions

T = TypeVar("T")

SEEDS = range(3)
CHAOS_S = 3.0
CALM_S = 3.0
PATIENCE_S = 2.0
PAUSE_S = 0.05
SOURCE = TopicPartition("t", 0)


class Gone(Exception):
    """The client gives up and begins anew."""


class Copier:
    """Items 0, 1, 2… to a partition in each lane, and the next one's number as the offset."""

    def __init__(self, broker: Broker, rng: Random, number: int) -> None:
        self.broker = broker
        self.rng = rng
        self.versions: Versions = (TV1, TV2)[number % 2]
        self.name = transactional_id_in(broker, number % 3, f"copier{number}-")
        self.topic = f"t{number}"
        self.group = group_in(broker, (number + 1) % 3)
        self.acknowledged = 0
        self.committed_count = 0

    async def run(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            try:
                await self._live(is_over)
            except (Gone, TimeoutError, ProtocolError):
                await elapse(0.05)

    async def _live(self, is_over: asyncio.Event) -> None:
        producer = HandledProducer(self.broker, self.name, self.versions)
        await self._asked(producer.init(), {NONE})
        code, offset = await self._answer(
            committed_offset(self.broker, self.group, SOURCE, stable=False)
        )
        if code != NONE:
            raise Gone
        position = max(offset, 0)
        while not is_over.is_set():
            if self.rng.random() < 0.1:
                raise Gone
            count = self.rng.randint(1, 2)
            await self._write(producer, position, count)
            commit = self.rng.random() < 0.9
            code = await self._answer(producer.end(commit=commit))
            if code != NONE:
                raise Gone
            if commit:
                position += count
                self.acknowledged = position
                self.committed_count += 1
            elif self.versions is TV1:
                raise Gone
            await elapse(self.rng.expovariate(1 / PAUSE_S))

    async def _write(self, producer: HandledProducer, position: int, count: int) -> None:
        partitions = [*range(3)]
        self.rng.shuffle(partitions)
        if self.versions is TV1:
            for _ in range(200):
                codes = await self._answer(producer.add(self.topic, partitions))
                if codes == {NONE}:
                    break
                if codes != {51}:
                    raise Gone
                await elapse(0.01)
            else:
                raise Gone
        for item in range(position, position + count):
            for partition in partitions:
                data = b"%d" % item
                found = await self._answer(producer.produce(self.topic, data, partition))
                if found.error_code != NONE:
                    raise Gone
        if self.versions is TV1:
            await self._asked(producer.add_offsets(self.group), {NONE})
        offsets: dict[tuple[str, int], int] = {SOURCE: position + count}
        if await self._answer(producer.commit_offsets(self.group, offsets)) != {NONE}:
            raise Gone

    async def _asked(self, asking: Coroutine[Any, Any, int], codes: set[int]) -> None:
        if await self._answer(asking) not in codes:
            raise Gone

    async def _answer(self, asking: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await asking


async def disturb(
    machine: SeveralLanes, broker: Broker, wire: Wire, rng: Random, is_calm: asyncio.Event
) -> None:
    def is_lost(lane: int, call: AnyCall) -> bool:
        return not is_calm.is_set() and rng.random() < 0.1

    wire.lost.append(is_lost)
    while not is_calm.is_set():
        await elapse(rng.expovariate(4))
        number = rng.randrange(3)
        device = machine.devices[number]
        stepping_down = asyncio.ensure_future(broker.leading.step_down(number))
        while number in broker.lanes.by_number:
            await elapse(0)
        device.fail_held()
        await stepping_down
        if rng.random() < 0.5:
            device.power_loss()
        else:
            device.kill()
        await elapse(rng.random() * 0.2)
        await broker.leading.take_lane(number, device)


def copy(seed: int, *, copier_count: int = 3) -> tuple[list[str], int]:
    """What is wrong in the end, and how many commits there were."""
    rng = Random(seed)

    async def scenario() -> tuple[list[str], int]:
        machine = SeveralLanes(CONFIG, seed=seed)
        async with machine.broker() as broker:
            await create(broker)
            for number in range(copier_count):
                await create(broker, f"t{number}")
            wire = Wire(broker)
            copiers = [Copier(broker, rng, number) for number in range(copier_count)]
            is_calm, is_over = asyncio.Event(), asyncio.Event()
            running = [asyncio.ensure_future(each.run(is_over)) for each in copiers]
            disturbing = asyncio.ensure_future(disturb(machine, broker, wire, rng, is_calm))
            await elapse(CHAOS_S)
            is_calm.set()
            await disturbing
            await elapse(CALM_S)
            before = [each.committed_count for each in copiers]
            await elapse(PATIENCE_S)
            anomalies = [
                f"{each.name} is stuck"
                for each, count in zip(copiers, before, strict=True)
                if each.committed_count == count
            ]
            is_over.set()
            await asyncio.wait(running)
            for each in running:
                each.result()
            await elapse(CALM_S)
            for copier in copiers:
                last = HandledProducer(broker, copier.name, copier.versions)
                assert await last.init() == NONE
                _, offset = await committed_offset(broker, copier.group, SOURCE)
                expected = [b"%d" % item for item in range(max(offset, 0))]
                if copier.acknowledged > offset:
                    anomalies.append(f"{copier.name} lost {copier.acknowledged} of {offset}")
                for partition in range(3):
                    shown = await read(broker, partition, copier.topic)
                    if shown != expected:
                        anomalies.append(
                            f"{copier.topic}-{partition} holds {shown}, not {expected}"
                        )
            anomalies += [
                f"lane {lane.number} holds something unfinished"
                for lane in broker.lanes.led
                if lane.view.has_joined or [*lane.view.unconfirmed()]
            ]
            return anomalies, sum(each.committed_count for each in copiers)

    return run(Random(seed), scenario())


@pytest.mark.parametrize("seed", SEEDS)
def test_each_item_is_copied_once_to_all_lanes_whatever_happens(seed: int) -> None:
    anomalies, count = copy(seed)
    assert anomalies == []
    assert count > 10
