"""What a broker compacts, and what it leaves: rules that are not about the records of a batch."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from broker.handled_producer import HandledProducer
from broker.test_retention import CHECK_MS, HOUR_MS, create, live, pass_check
from semel.broker.broker import Broker
from semel.lane.partition_log import Stored, Wanted
from semel.lane.view import PartitionView
from semel.records import batch as record_batch
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import Offset
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from support.handled import LoopClock, call, started
from support.raw_client import produce_request
from support.seeded_loop import run

TOPIC = "t"
INVALID_RECORD, POLICY_VIOLATION, OUT_OF_ORDER = 87, 44, 45


async def sent(broker: Broker, batch: bytes) -> PartitionProduceResponse:
    answer = await call(broker, "produce", 9, produce_request(TOPIC, batch, acks=-1))
    (partition,) = answer.responses[0].partition_responses
    assert isinstance(partition, PartitionProduceResponse)
    return partition


async def write(broker: Broker, key: bytes, at_ms: int, count: int) -> None:
    for _ in range(count):
        assert (
            await sent(broker, encode_batch([Record(key, bytes(12_000), at_ms)]))
        ).error_code == 0


async def kept(broker: Broker) -> list[int]:
    """The offsets of the records that are there."""
    partition: PartitionView = broker.lanes.controller.view.partition(TOPIC, 0)
    log = broker.lanes.controller.log
    offset = partition.log_start_offset
    found: list[int] = []
    while offset < partition.high_watermark:
        wanted = Wanted(partition, offset, partition.high_watermark, 2**20)
        (stored,) = await log.read(await log.find([wanted], 2**20), with_aborted=False)
        assert isinstance(stored, Stored)
        for batch in stored.batches:
            found += [record.offset for record in decode_batch(batch) if record.offset >= offset]
            offset = Offset(record_batch.read(batch).last_offset + 1)
    return found


def with_topic(scenario: Callable[[Broker, LoopClock], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, TOPIC, {"cleanup.policy": "compact"} | _with_dots(settings))
            await scenario(broker, clock)

    run(Random(1), main())


def _with_dots(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


async def _old_and_young(broker: Broker, clock: LoopClock) -> None:
    await write(broker, b"old", clock.wall_ms(), 100)
    await write(broker, b"both", clock.wall_ms(), 100)
    await asyncio.sleep(HOUR_MS / 1000)
    await write(broker, b"both", clock.wall_ms(), 200)
    await pass_check()
    found = await kept(broker)
    assert found[-200:] == list(range(200, 400))
    assert found[:-200] == [99, 199]


def test_records_younger_than_the_lag_stay_and_replace_nothing() -> None:
    """The newest old record of a key stays, though a young one has replaced it."""
    with_topic(_old_and_young, min_compaction_lag_ms=str(HOUR_MS // 2))


async def _hardly_dirty(broker: Broker, clock: LoopClock) -> None:
    for number in range(400):
        await write(broker, b"%d" % number, clock.wall_ms(), 1)
    await pass_check()
    before = await kept(broker)
    # Sealed, all but the last of it, and a third at most.
    await write(broker, b"0", clock.wall_ms(), 190)
    await pass_check()
    assert await kept(broker) == [*before, *range(400, 590)]
    await write(broker, b"0", clock.wall_ms(), 400)
    await pass_check()
    assert len(await kept(broker)) < len(before) + 300


def test_a_pass_waits_until_it_is_worth_it() -> None:
    with_topic(_hardly_dirty, min_cleanable_dirty_ratio="0.5")


async def _open_transaction(broker: Broker, clock: LoopClock) -> None:
    await write(broker, b"key", clock.wall_ms(), 1)
    producer = HandledProducer(broker, "t")
    assert await producer.init(timeout_ms=HOUR_MS // 4) == 0
    batch = encode_batch(
        [Record(b"key", b"newer", clock.wall_ms())],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    data = TopicProduceData(TOPIC, [PartitionProduceData(0, batch)])
    request = ProduceRequest("t", -1, 30_000, [data])
    answer = await call(broker, "produce", producer.versions.produce, request)
    assert answer.responses[0].partition_responses[0].error_code == 0
    await write(broker, b"other", clock.wall_ms(), 400)
    await pass_check()
    assert (await kept(broker))[:2] == [0, 1]
    assert await producer.end(commit=False) == 0
    await write(broker, b"other", clock.wall_ms(), 400)
    await pass_check()
    found = await kept(broker)
    assert len(found) < 400
    # What was written in the transaction was never there.
    assert found[0] == 0
    assert 1 not in found


def test_what_an_open_transaction_has_written_replaces_nothing() -> None:
    with_topic(_open_transaction)


async def _retried(broker: Broker, clock: LoopClock) -> None:
    given = await call(broker, "init_producer_id", 4, InitProducerIdRequest(None, 60_000))
    batches = [
        encode_batch(
            [Record(b"key", bytes(100), clock.wall_ms())],
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=sequence,
        )
        for sequence in range(8)
    ]
    for offset, batch in enumerate(batches):
        assert (await sent(broker, batch)).base_offset == offset
    await write(broker, b"key", clock.wall_ms(), 300)
    await pass_check()
    assert (await kept(broker))[0] > len(batches)
    end = broker.lanes.controller.view.partition(TOPIC, 0).log_end_offset
    for offset, batch in enumerate(batches):
        answer = await sent(broker, batch)
        if offset >= len(batches) - 5:
            assert (answer.error_code, answer.base_offset) == (0, offset)
        else:
            assert answer.error_code == OUT_OF_ORDER
    assert broker.lanes.controller.view.partition(TOPIC, 0).log_end_offset == end


def test_a_retry_of_what_was_compacted_away_is_known_as_any_other() -> None:
    with_topic(_retried)


async def _refused(broker: Broker, clock: LoopClock) -> None:
    await write(broker, b"key", clock.wall_ms(), 1)
    assert (await sent(broker, encode_batch([Record(None, b"", 1)]))).error_code == INVALID_RECORD
    wanted = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 1)])
    answer = await call(broker, "delete_records", 2, DeleteRecordsRequest([wanted]))
    assert answer.topics[0].partitions[0].error_code == POLICY_VIOLATION
    assert await kept(broker) == [0]


def test_what_has_no_key_or_is_to_be_deleted_is_refused() -> None:
    with_topic(_refused)


async def _kept_by_key(broker: Broker, clock: LoopClock) -> None:
    await write(broker, b"key", clock.wall_ms() - 10 * CHECK_MS, 300)
    await pass_check()
    partition = broker.lanes.controller.view.partition(TOPIC, 0)
    assert partition.log_start_offset == 0
    assert (await kept(broker))[-1] == 299


def test_a_topic_that_is_only_compacted_keeps_the_newest_however_old() -> None:
    with_topic(_kept_by_key, retention_ms="1", retention_bytes="1")
