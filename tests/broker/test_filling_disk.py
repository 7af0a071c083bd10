"""A disk that fills: it is seen coming, and once something is deleted writes are taken again."""

from random import Random
from typing import Any

import pytest

from semel.broker import log
from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig
from semel.broker.housekeeping import ROUND_MS
from semel.broker.metrics import Collector
from semel.journal.file.memory import MemoryDevice
from semel.records.records import Record, encode_batch
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from support.handled import LoopClock, SeededRandomness, call, started
from support.kafka_codes import NONE
from support.raw_client import produce_request
from support.seeded_loop import elapse, run

STORAGE_ERROR = 56
SEGMENT_BYTES = 1_500_000
CAPACITY_BYTES = 12_000_000
HOUR_MS = 3_600_000
CONFIG = BrokerConfig(message_max_bytes=20_000, journal_segment_bytes=SEGMENT_BYTES)
"""Whose retention looks once in five minutes, and which settles nothing on so small a disk."""
SOON_S = 30


def opened(device: MemoryDevice, clock: LoopClock, config: BrokerConfig = CONFIG) -> Broker:
    storage = Storage("memory", lambda: (CAPACITY_BYTES, device.free_bytes()))
    return Broker(config, [device], storage, clock, SeededRandomness(Random(1)))


def small_disk() -> MemoryDevice:
    device = MemoryDevice(Random(1))
    device.capacity_bytes = CAPACITY_BYTES
    return device


async def create(broker: Broker, name: str, **settings: str) -> None:
    configs = [
        CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()
    ]
    topics = CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=configs)])
    assert (await call(broker, "create_topics", 7, topics)).topics[0].error_code == NONE


async def produce(broker: Broker, topic: str, at_ms: int, size: int = 10_000) -> int:
    batch = encode_batch([Record(b"k", bytes(size), at_ms)])
    answer = await call(broker, "produce", 9, produce_request(topic, batch, acks=-1))
    return int(answer.responses[0].partition_responses[0].error_code)


async def fill(broker: Broker, topic: str, at_ms: int, first_size: int = 10_000) -> int:
    """Until there is no room for a record of one byte; how many were taken."""
    count = 0
    for size in (first_size, 1_000, 100, 1):
        while (code := await produce(broker, topic, at_ms, size)) == NONE:
            count += 1
        assert code == STORAGE_ERROR
    return count


async def delete(broker: Broker, topic: str) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(topic)])
    assert (await call(broker, "delete_topics", 6, request)).responses[0].error_code == NONE


def take_the_rest(device: MemoryDevice) -> None:
    """Others write to the disk as well, to the last byte."""
    assert device.capacity_bytes is not None
    device.capacity_bytes -= device.free_bytes()
    assert device.free_bytes() == 0


def test_when_a_topic_was_deleted_a_full_disk_takes_writes_again() -> None:
    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        async with started(opened(device, clock)) as broker:
            await create(broker, "gone")
            await create(broker, "kept")
            taken = await fill(broker, "gone", clock.wall_ms())
            await elapse(SOON_S)
            assert await produce(broker, "kept", clock.wall_ms()) == STORAGE_ERROR
            await delete(broker, "gone")
            await elapse(SOON_S)
            assert await produce(broker, "kept", clock.wall_ms()) == NONE
            stored = 1 + await fill(broker, "kept", clock.wall_ms())
            assert stored > taken // 2
        device.power_loss()
        async with started(opened(device, clock)) as broker:
            assert broker.lanes.controller.view.partition("kept", 0).high_watermark == stored

    run(Random(1), scenario())


@pytest.mark.parametrize("size", [10_000, 200])
@pytest.mark.parametrize("lives_in_the_oldest", [False, True])
def test_room_comes_back_on_a_disk_that_others_have_filled_to_the_last_byte(
    size: int, lives_in_the_oldest: bool
) -> None:
    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        async with started(opened(device, clock)) as broker:
            await create(broker, "gone")
            await create(broker, "kept")
            if lives_in_the_oldest:
                assert await produce(broker, "kept", clock.wall_ms()) == NONE
            taken = await fill(broker, "gone", clock.wall_ms(), size)
            take_the_rest(device)
            await elapse(SOON_S)
            assert device.free_bytes() == 0
            await delete(broker, "gone")
            await elapse(SOON_S)
            assert await fill(broker, "kept", clock.wall_ms(), size) > taken // 2
            assert broker.lanes.controller.view.partition("kept", 0).log_start_offset == 0

    run(Random(1), scenario())


def test_a_full_disk_does_not_wait_for_the_next_round_of_retention() -> None:
    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        config = BrokerConfig(
            message_max_bytes=20_000,
            journal_segment_bytes=SEGMENT_BYTES,
            log_retention_check_interval_ms=24 * HOUR_MS,
        )
        async with started(opened(device, clock, config)) as broker:
            await create(broker, "t", retention_ms=str(HOUR_MS))
            taken = await fill(broker, "t", clock.wall_ms())
            await elapse(HOUR_MS / 1000 - SOON_S)
            assert await produce(broker, "t", clock.wall_ms()) == STORAGE_ERROR
            await elapse(3 * SOON_S)
            assert await fill(broker, "t", clock.wall_ms()) > taken // 2

    run(Random(1), scenario())


def test_a_full_disk_is_no_reason_to_trust_a_clock_at_a_start() -> None:
    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        async with started(opened(device, clock)) as broker:
            await create(broker, "t", retention_ms=str(HOUR_MS))
            await fill(broker, "t", clock.wall_ms())
        device.kill()
        clock.ahead_ms += 1000 * HOUR_MS
        async with started(opened(device, clock)) as broker:
            await elapse(240)
            assert broker.lanes.controller.view.partition("t", 0).log_start_offset == 0
            await elapse(120)
            assert broker.lanes.controller.view.partition("t", 0).log_start_offset > 0

    run(Random(1), scenario())


def test_it_is_said_once_that_the_disk_fills_and_once_that_it_does_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    def remember(event: str, **values: Any) -> None:
        told.append(event.split(":", maxsplit=1)[0])

    monkeypatch.setattr(log, "warning", remember)
    monkeypatch.setattr(log, "info", remember)
    filling, over = "the disk is filling", "the disk is no longer filling"

    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        async with started(opened(device, clock)) as broker:
            await create(broker, "t")
            await elapse(SOON_S)
            assert told == []
            while device.free_bytes() > 3 * SEGMENT_BYTES:
                assert await produce(broker, "t", clock.wall_ms()) == NONE
            await elapse(SOON_S)
            assert told == [filling]
            await fill(broker, "t", clock.wall_ms())
            await elapse(SOON_S)
            assert told.count(filling) == 1
            await delete(broker, "t")
            await elapse(SOON_S)
            assert [each for each in told if each in (filling, over)] == [filling, over]

    run(Random(1), scenario())


def test_a_disk_that_would_be_full_at_the_next_look_is_called_filling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(log, "warning", lambda event, **_: told.append(event.split(":")[0]))

    async def scenario() -> None:
        free_bytes = [100_000_000]
        storage = Storage("memory", lambda: (200_000_000, free_bytes[-1]))
        broker = Broker(
            CONFIG, [MemoryDevice(Random(1))], storage, LoopClock(), SeededRandomness(Random(1))
        )
        async with started(broker):
            for left_bytes in (100_000_000, 80_000_000, 60_000_000, 60_000_000):
                free_bytes.append(left_bytes)
                await elapse(ROUND_MS / 1000)
                assert told == []
            free_bytes.append(34_000_000)
            await elapse(ROUND_MS / 1000)
            assert told == ["the disk is filling"]

    run(Random(1), scenario())


def test_a_small_disk_that_is_empty_is_called_small_and_not_filling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[tuple[str, dict[str, Any]]] = []

    def remember(event: str, **values: Any) -> None:
        warnings.append((event.split(":", maxsplit=1)[0], values))

    monkeypatch.setattr(log, "warning", remember)
    small = 9 * SEGMENT_BYTES // 2

    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        device.capacity_bytes = small
        storage = Storage("memory", lambda: (small, device.free_bytes()))
        broker = Broker(CONFIG, [device], storage, clock, SeededRandomness(Random(1)))
        async with started(broker):
            await create(broker, "t")
            await elapse(SOON_S)
            assert [event for event, _ in warnings] == ["the disk is small for its journal files"]
            while device.free_bytes() > SEGMENT_BYTES:
                assert await produce(broker, "t", clock.wall_ms()) == NONE
            await elapse(SOON_S)
            event, values = warnings[-1]
            assert (len(warnings), event) == (2, "the disk is filling")
            assert values["largest_topics"]["t"] > SEGMENT_BYTES // 2
            assert await produce(broker, "t", clock.wall_ms()) == NONE

    run(Random(1), scenario())


def shown(broker: Broker) -> dict[tuple[str, ...], float]:
    """By name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in Collector(broker).collect()
        for sample in family.samples
    }


def test_metrics_show_what_takes_room_and_what_was_given_back() -> None:
    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        config = BrokerConfig(
            message_max_bytes=20_000,
            journal_segment_bytes=SEGMENT_BYTES,
            journal_settle_bytes=2 * 2**20,
            log_retention_check_interval_ms=60_000,
        )
        async with started(opened(device, clock, config)) as broker:
            await create(broker, "short", retention_ms=str(HOUR_MS))
            await create(broker, "long")
            for number in range(700):
                assert await produce(broker, "short", clock.wall_ms()) == NONE
                if number % 10 == 0:
                    assert await produce(broker, "long", clock.wall_ms()) == NONE
            batch_size = len(encode_batch([Record(b"k", bytes(10_000), clock.wall_ms())]))
            await elapse(120)
            before = shown(broker)
            assert before["semel_topic_bytes", "short"] == 700 * batch_size
            assert before["semel_topic_bytes", "long"] == 70 * batch_size
            assert before[("semel_topic_bytes_all",)] == 770 * batch_size
            assert before[("semel_retention_deleted_bytes_total",)] == 0
            await elapse(2 * HOUR_MS / 1000)
            after = shown(broker)
            assert after["semel_topic_bytes", "short"] == 0
            assert after["semel_topic_bytes", "long"] == 70 * batch_size
            assert after[("semel_retention_deleted_bytes_total",)] == 700 * batch_size
            assert after[("semel_retention_rounds_total",)] > 100
            ended_s = after[("semel_retention_round_ended_timestamp_seconds",)]
            assert clock.wall_ms() / 1000 - 70 < ended_s <= clock.wall_ms() / 1000
            sizes = {name: device.size(name) for name in device.names()}
            in_volumes = sum(size for name, size in sizes.items() if ".volume" in name)
            assert after[("semel_volume_bytes",)] == in_volumes > 0
            assert after[("semel_volumes",)] == sum(name.endswith(".volume") for name in sizes)
            assert after[("semel_settling_written_bytes_total",)] >= in_volumes
            in_segments = sum(
                size for name, size in sizes.items() if name.endswith((".segment", "prepared"))
            )
            assert after[("semel_journal_stored_bytes",)] == in_segments
            assert after[("semel_removed_bytes_total",)] > before[("semel_removed_bytes_total",)]
            used = after[("semel_disk_bytes",)] - after[("semel_disk_free_bytes",)]
            assert used == sum(sizes.values())

    run(Random(1), scenario())


def test_metrics_show_what_compaction_has_read_and_written() -> None:
    async def scenario() -> None:
        device, clock = small_disk(), LoopClock()
        async with started(opened(device, clock)) as broker:
            await create(broker, "t", cleanup_policy="compact")
            for _ in range(400):
                assert await produce(broker, "t", clock.wall_ms()) == NONE
            await elapse(HOUR_MS / 1000)
            after = shown(broker)
            assert after[("semel_compaction_passes_total",)] == 1
            assert after[("semel_compaction_read_bytes_total",)] > 0.9 * SEGMENT_BYTES
            assert 0 < after[("semel_compaction_written_bytes_total",)] < 20_000

    run(Random(1), scenario())
