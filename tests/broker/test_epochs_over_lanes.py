"""Epochs that run out in a transaction over lanes: its completion moves to a new producer id."""

import asyncio
from random import Random

from broker.handled_producer import HandledProducer
from semel.broker.broker import Broker
from semel.errors import NONE
from semel.lane.calls import AskOutcomes, TellOutcomes
from semel.lane.transactions import Transact
from semel.transactions.commands import InitProducer
from semel.transactions.epochs import LAST_EPOCH
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerId,
    TopicPartition,
    TransactionalId,
)
from support.lanes_rules import is_a
from support.seeded_loop import elapse, run
from support.several_lanes import (
    SeveralLanes,
    Wire,
    committed_offset,
    create,
    group_in,
    transactional_id_in,
)


async def at_its_last_epoch(broker: Broker) -> HandledProducer:
    """Its coordinator is in lane 0."""
    name = TransactionalId(transactional_id_in(broker, 0))
    command = InitProducer(name, 60_000, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    lane = broker.coordinators.of_transactional_id(name)
    for number in range(LAST_EPOCH):
        lane.submit(Transact(name, command))
        if number % 100 == 0:
            await asyncio.sleep(0)
    producer = HandledProducer(broker, name)
    assert await producer.init() == NONE
    assert producer.epoch == LAST_EPOCH
    return producer


def test_who_commits_is_not_handed_the_epoch_of_a_successor() -> None:
    async def scenario() -> None:
        async with SeveralLanes().broker() as broker:
            await create(broker)
            wire = Wire(broker)
            producer = await at_its_last_epoch(broker)
            first_id = ProducerId(producer.producer_id)
            assert (await producer.produce("t", b"v", 1)).error_code == NONE
            wire.held.append(is_a(TellOutcomes))
            ending = asyncio.ensure_future(producer.end(commit=True))
            view = broker.lanes.by_number[0].view
            while view.transaction_of(first_id) is not None:
                await elapse(0.001)
            # It is committed, and its client has not heard so yet.
            assert not ending.done()
            successor = HandledProducer(broker, transactional_id_in(broker, 0))
            initialising = asyncio.ensure_future(successor.init())
            await elapse(0.001)
            wire.held.clear()
            assert await ending == NONE
            assert await initialising == NONE
            assert producer.producer_id == successor.producer_id > first_id
            assert producer.epoch == 0
            assert successor.epoch == 1

    run(Random(1), scenario())


def test_a_successor_waits_until_all_lanes_have_ended_what_the_old_id_has_committed() -> None:
    async def scenario() -> None:
        async with SeveralLanes().broker() as broker:
            await create(broker)
            wire = Wire(broker)
            producer = await at_its_last_epoch(broker)
            group = group_in(broker, 1)
            assert await producer.commit_offsets(group, {("t", 0): 5}) == {NONE}
            wire.lost += [is_a(TellOutcomes), is_a(AskOutcomes)]
            assert await producer.end(commit=True) == NONE
            successor = HandledProducer(broker, transactional_id_in(broker, 0))
            initialising = asyncio.ensure_future(successor.init())
            await elapse(1)
            assert not initialising.done()
            wire.lost.clear()
            assert await initialising == NONE
            partition = TopicPartition("t", 0)
            assert await committed_offset(broker, group, partition, stable=False) == (NONE, 5)

    run(Random(1), scenario())
