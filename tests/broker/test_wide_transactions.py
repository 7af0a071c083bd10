"""A transaction ends in one frame: none gets too wide for that, and one that is ends even so."""

from dataclasses import replace

import pytest

from broker.handled_producer import HandledProducer
from semel.broker.broker import Broker
from semel.lane import transactions as lane_transactions
from semel.types import Offset
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from support import handled
from support.compiled import plain_python
from support.handled import Machine, call, on_a
from support.inside import journal_of, partitions_of, state_of
from support.kafka_codes import NONE, TRANSACTION_ABORTABLE
from support.transactional_wire import TV1, TV2, Versions

CONFIG = replace(handled.CONFIG, journal_segment_bytes=400_000)
PARTITION_COUNT = 4_500
"""Their markers take more than a segment has."""
STEP = 500


async def create_topics(broker: Broker) -> None:
    topics = [CreatableTopic("wide", PARTITION_COUNT, 1), CreatableTopic("t", 1, 1)]
    answer = await call(broker, "create_topics", 7, CreateTopicsRequest(topics))
    assert [topic.error_code for topic in answer.topics] == [NONE, NONE]


async def join_until_refused(producer: HandledProducer) -> int:
    """The number of partitions that are part of the transaction then."""
    for start in range(0, PARTITION_COUNT, STEP):
        codes = await producer.add("wide", range(start, start + STEP))
        if codes != {NONE}:
            assert codes == {TRANSACTION_ABORTABLE}
            return start
    return PARTITION_COUNT


def stable_ends(broker: Broker, count: int) -> set[tuple[Offset, Offset]]:
    """Last stable offset and high watermark, of as many partitions."""
    partitions = partitions_of(state_of(broker), "wide")[:count]
    return {(each.last_stable_offset, each.high_watermark) for each in partitions}


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("versions", [TV1, TV2], ids=["TV1", "TV2"])
@on_a(Machine, CONFIG)
async def test_a_partition_too_many_is_refused_and_the_transaction_ends_without_it(
    machine: Machine, versions: Versions, commit: bool
) -> None:
    async with machine.broker() as broker:
        await create_topics(broker)
        producer = HandledProducer(broker, "a", versions)
        assert await producer.init() == NONE
        joined = await join_until_refused(producer)
        assert STEP < joined < PARTITION_COUNT
        assert (await producer.produce("wide", b"v", joined - 1)).error_code == NONE
        ((transaction,)) = state_of(broker).transactions.open()
        assert len(transaction.partitions) == joined
        assert await producer.end(commit=commit) == NONE
        assert stable_ends(broker, joined - 1) == {(1, 1)}
        assert stable_ends(broker, joined) == {(1, 1), (2, 2)}
        # It is this transaction alone that is refused.
        assert await producer.add("wide", [PARTITION_COUNT - 1]) == {NONE}
        assert await producer.end(commit=True) == NONE


@on_a(Machine, CONFIG)
async def test_under_tv2_the_batch_that_would_join_is_refused_with_the_reason(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        await create_topics(broker)
        producer = HandledProducer(broker, "a")
        await producer.init()
        joined = await join_until_refused(producer)
        while await producer.add("wide", [joined]) == {NONE}:
            joined += 1
        frames = journal_of(broker).frames_appended
        refused = await producer.produce("t", b"v")
        assert refused.error_code == TRANSACTION_ABORTABLE
        assert f"{joined + 1} partitions" in refused.error_message
        offsets = {("t", 0): 1}
        assert await producer.commit_offsets("g", offsets) == {TRANSACTION_ABORTABLE}
        assert state_of(broker).transactions.open()[0].partitions == {
            ("wide", index) for index in range(joined)
        }
        assert journal_of(broker).frames_appended == frames + 1  # The groups' topic.
        # What is part of it already is taken as before.
        assert (await producer.produce("wide", b"v")).error_code == NONE
        assert await producer.end(commit=True) == NONE


async def open_too_wide(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> HandledProducer:
    """As a version did that knew no limit."""
    await create_topics(broker)
    producer = HandledProducer(broker, "a")
    await producer.init()
    with monkeypatch.context() as patch:
        patch.setattr(lane_transactions, "_check_width", lambda *_: None)
        assert await join_until_refused(producer) == PARTITION_COUNT
    assert (await producer.produce("wide", b"v", 7)).error_code == NONE
    await broker.lanes.controller.until_durable()
    return producer


async def committed_batches(broker: Broker, partition: int) -> tuple[int, int]:
    """The end that readers of committed records see, and how many transactions they skip."""
    wanted = FetchTopic("wide", partitions=[FetchPartition(partition, fetch_offset=0)])
    request = FetchRequest(max_wait_ms=0, isolation_level=1, topics=[wanted])
    (topic,) = (await call(broker, "fetch", 11, request)).responses
    (found,) = topic.partitions
    return found.last_stable_offset, len(found.aborted_transactions or ())


@plain_python
@on_a(Machine, CONFIG)
async def test_one_that_is_too_wide_already_is_aborted_whole_after_a_power_loss(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with machine.broker() as broker:
        await open_too_wide(broker, monkeypatch)
    machine.device.power_loss()
    for _ in range(2):
        async with machine.broker() as broker:
            assert state_of(broker).term == 1
            assert state_of(broker).transactions.open() == ()
            assert stable_ends(broker, PARTITION_COUNT) == {(1, 1), (2, 2)}
            assert await committed_batches(broker, 7) == (2, 1)
        machine.device.kill()


@plain_python
@pytest.mark.parametrize("commit", [True, False])
@on_a(Machine, CONFIG)
async def test_one_that_is_too_wide_already_is_ended_by_its_client(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    async with machine.broker() as broker:
        producer = await open_too_wide(broker, monkeypatch)
    machine.device.kill()
    async with machine.broker() as broker:
        producer.broker = broker
        assert await producer.add("t", [0]) == {TRANSACTION_ABORTABLE}
        frames = journal_of(broker).frames_appended
        assert await producer.end(commit=commit) == NONE
        assert journal_of(broker).frames_appended == frames + 1
        assert stable_ends(broker, PARTITION_COUNT) == {(1, 1), (2, 2)}
    machine.device.power_loss()
    async with machine.broker() as broker:
        assert await committed_batches(broker, 7) == (2, 0 if commit else 1)
