"""Retention: what goes, when, what stays, and that its room comes back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from semel.broker import log
from semel.broker.broker import Broker
from semel.broker.config import BrokerConfig
from semel.broker.retention import Policies, Retention
from semel.broker.topic_config import Keeping, compaction_of
from semel.errors import InvalidRecord, OffsetOutOfRange, StorageAway
from semel.journal import names
from semel.journal.file.memory import MemoryDevice
from semel.lane import facts
from semel.lane.compacting import ROLL_PAUSE_MS
from semel.lane.partition_log import Stored, Wanted
from semel.lane.topics import DeleteExpired
from semel.records import batch as record_batch
from semel.records.records import Record, encode_batch
from semel.types import Offset, TopicPartition
from semel.volumes.plans import CompactionPlan, Made
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.handled import CONFIG, LoopClock, call, opened, started
from support.inside import journal_of, state_of
from support.raw_client import produce_request
from support.seeded_loop import run

HOUR_MS = 3_600_000
CHECK_MS = 60_000
RETAINING = BrokerConfig(
    message_max_bytes=20_000,
    journal_segment_bytes=CONFIG.journal_segment_bytes,
    journal_settle_bytes=2**22,
    log_retention_check_interval_ms=CHECK_MS,
)


async def create(broker: Broker, name: str, settings: Mapping[str, str]) -> None:
    configs = [CreatableTopicConfig(key, value) for key, value in settings.items()]
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=configs)])
    answer = await call(broker, "create_topics", 7, request)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


async def produce(broker: Broker, topic: str, at_ms: int, *, size: int = 100) -> int:
    batch = encode_batch([Record(b"k", bytes(size), at_ms)])
    answer = await call(broker, "produce", 9, produce_request(topic, batch, acks=-1))
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == 0
    offset: int = partition.base_offset
    return offset


def log_start(broker: Broker, topic: str) -> int:
    return broker.lanes.controller.view.partition(topic, 0).log_start_offset


async def pass_check() -> None:
    await asyncio.sleep(2 * CHECK_MS / 1000)


def live(seed: int = 1, clock: LoopClock | None = None, config: BrokerConfig = RETAINING) -> Broker:
    return opened(MemoryDevice(Random(seed)), Random(seed), config, clock)


def test_records_older_than_retention_ms_go_and_one_that_is_young_keeps_all_behind_it() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            now = clock.wall_ms()
            for age_ms in (3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS // 2, 5 * HOUR_MS):
                await produce(broker, "t", now - age_ms)
            await pass_check()
            assert log_start(broker, "t") == 2
            await asyncio.sleep(HOUR_MS / 1000)
            assert log_start(broker, "t") == 4

    run(Random(1), scenario())


def test_a_reader_below_the_start_is_told_that_it_is_out_of_range() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            await produce(broker, "t", clock.wall_ms() - 2 * HOUR_MS)
            await produce(broker, "t", clock.wall_ms())
            await pass_check()
            wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=2**20)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=[FetchTopic("t", partitions=[wanted])]
            )
            answer = await call(broker, "fetch", 12, request)
            assert answer.responses[0].partitions[0].error_code == OffsetOutOfRange.code

    run(Random(1), scenario())


def test_so_many_bytes_are_kept_at_least() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, "t", {"retention.bytes": "1000"})
            for _ in range(20):
                await produce(broker, "t", clock.wall_ms(), size=150)
            await pass_check()
            (directory,) = (
                await call(broker, "describe_log_dirs", 4, DescribeLogDirsRequest())
            ).results
            (topic,) = [each for each in directory.topics if each.name == "t"]
            size = topic.partitions[0].partition_size
            batch_size = len(encode_batch([Record(b"k", bytes(150), clock.wall_ms())]))
            assert 1000 <= size < 1000 + batch_size
            assert log_start(broker, "t") == 20 - size // batch_size

    run(Random(1), scenario())


def test_settings_are_the_topics_the_brokers_or_neither_and_change_while_it_runs() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        config = BrokerConfig(
            message_max_bytes=20_000,
            journal_segment_bytes=CONFIG.journal_segment_bytes,
            log_retention_check_interval_ms=CHECK_MS,
            log_retention_ms=HOUR_MS,
        )
        async with started(live(clock=clock, config=config)) as broker:
            await create(broker, "by_broker", {})
            await create(broker, "for_ever", {"retention.ms": "-1"})
            await create(broker, "compacted", {"cleanup.policy": "compact"})
            topics = ("by_broker", "for_ever", "compacted")
            for topic in topics:
                await produce(broker, topic, clock.wall_ms() - 2 * HOUR_MS)
            await pass_check()
            assert [log_start(broker, topic) for topic in topics] == [1, 0, 0]
            entry = AlterableConfig("retention.ms", 0, str(HOUR_MS))
            resource = AlterConfigsResource(2, "for_ever", [entry])
            request = IncrementalAlterConfigsRequest([resource])
            await call(broker, "incremental_alter_configs", 1, request)
            await pass_check()
            assert [log_start(broker, topic) for topic in topics] == [1, 1, 0]

    run(Random(1), scenario())


def test_a_clock_that_is_set_ahead_deletes_nothing() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            await produce(broker, "t", clock.wall_ms())
            clock.ahead_ms += 1000 * HOUR_MS
            await pass_check()
            assert log_start(broker, "t") == 0
            await asyncio.sleep(HOUR_MS / 1000)
            assert log_start(broker, "t") == 1

    run(Random(1), scenario())


def test_a_deleted_record_of_the_future_holds_nothing_back() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, "t", {"retention.ms": str(HOUR_MS), "retention.bytes": "10000"})
            await produce(broker, "t", clock.wall_ms() + 1000 * HOUR_MS)
            for _ in range(30):
                await produce(broker, "t", clock.wall_ms(), size=1000)
            await pass_check()
            kept = log_start(broker, "t")
            assert 0 < kept < 31
            await asyncio.sleep(HOUR_MS / 1000)
            await pass_check()
            assert log_start(broker, "t") == 31

    run(Random(1), scenario())


async def fill(broker: Broker, topic: str, at_ms: int, segments: int) -> None:
    size = 15_000
    for _ in range(segments * CONFIG.journal_segment_bytes // size):
        await produce(broker, topic, at_ms, size=size)


def test_the_room_of_a_deleted_topic_comes_back_and_does_not_come_again() -> None:
    async def scenario() -> None:
        device = MemoryDevice(Random(1))
        clock = LoopClock()
        async with started(opened(device, Random(1), RETAINING, clock)) as broker:
            await create(broker, "kept", {})
            await create(broker, "gone", {})
            await produce(broker, "kept", clock.wall_ms())
            await fill(broker, "gone", clock.wall_ms(), 6)
            assert len(journal_of(broker).segments.bases) > 6
            request = DeleteTopicsRequest([DeleteTopicState("gone")])
            await call(broker, "delete_topics", 6, request)
            await pass_check()
            bases = len(journal_of(broker).segments.bases)
            assert bases <= 2
            assert state_of(broker).volumes
            assert sum(device.size(name) for name in device.names()) < 3 * 2**21
        device.power_loss()
        async with started(opened(device, Random(2), RETAINING, clock)) as broker:
            assert broker.lanes.controller.view.partition("kept", 0).high_watermark == 1
            assert len(journal_of(broker).segments.bases) <= bases + 1

    run(Random(1), scenario())


@pytest.mark.parametrize("segment_count", [5, 1])
@pytest.mark.parametrize("how", ["the topic", "its records", "before a start", "by its age"])
def test_what_was_deleted_by_hand_gives_its_room_back_though_more_lives_beside_it(
    how: str, segment_count: int
) -> None:
    """What has grown old waits until less lives beside it, or there is more of it."""
    segment_bytes = RETAINING.journal_segment_bytes
    config = replace(RETAINING, journal_settle_bytes=64 * segment_bytes)
    device = MemoryDevice(Random(1))

    def sealed_bytes(broker: Broker) -> int:
        return sum(each.end - each.base for each in journal_of(broker).sealed())

    async def scenario() -> None:
        clock = LoopClock()
        async with started(opened(device, Random(1), config, clock)) as broker:
            await create(broker, "kept", {})
            await create(broker, "gone", {"retention.ms": str(HOUR_MS)})
            while sealed_bytes(broker) < (segment_count - 0.1) * segment_bytes:
                for _ in range(3):
                    await produce(broker, "kept", clock.wall_ms(), size=15_000)
                for _ in range(2):
                    await produce(broker, "gone", clock.wall_ms(), size=15_000)
            before = sealed_bytes(broker)
            await pass_check()
            assert sealed_bytes(broker) == before
            if how == "its records":
                partition = DeleteRecordsPartition(0, -1)
                request = DeleteRecordsRequest([DeleteRecordsTopic("gone", [partition])])
                await call(broker, "delete_records", 2, request)
            elif how == "by its age":
                await asyncio.sleep(2 * HOUR_MS / 1000)
                assert log_start(broker, "gone") > 0
            else:
                await call(
                    broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("gone")])
                )
            if how != "before a start":
                await pass_check()
                left = sealed_bytes(broker) + broker.lanes.controller.settling.volume_bytes
        if how == "before a start":
            device.kill()
            async with started(opened(device, Random(1), config, clock)) as broker:
                await pass_check()
                left = sealed_bytes(broker) + broker.lanes.controller.settling.volume_bytes
        if how == "by its age":
            assert left == before
        else:
            assert left < 0.65 * before

    run(Random(1), scenario())


@pytest.mark.parametrize("is_told", [False, True])
def test_a_folder_of_a_version_that_kept_all_waits_to_be_told(
    is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(log, "warning", lambda event, **values: warnings.append(event))

    async def scenario() -> None:
        device = MemoryDevice(Random(1))
        clock = LoopClock()
        async with started(opened(device, Random(1), RETAINING, clock)) as broker:
            # As if it had never been said.
            state_of(broker).is_retention_enforced = False
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            await produce(broker, "t", clock.wall_ms() - 2 * HOUR_MS)
            await broker.lanes.controller._journal.checkpoint_now()
        device.kill()
        warnings.clear()
        config = BrokerConfig(
            message_max_bytes=20_000,
            journal_segment_bytes=CONFIG.journal_segment_bytes,
            log_retention_check_interval_ms=CHECK_MS,
            retention_enforce=is_told,
        )
        async with started(opened(device, Random(2), config, clock)) as broker:
            await pass_check()
            assert log_start(broker, "t") == int(is_told)
        device.kill()
        async with started(opened(device, Random(3), RETAINING, clock)) as broker:
            await pass_check()
            assert log_start(broker, "t") == int(is_told)
            assert await is_shown_enforced(broker) == is_told

    run(Random(1), scenario())
    assert any("retention is not enforced" in warning for warning in warnings) != is_told


async def is_shown_enforced(broker: Broker) -> bool:
    resource = DescribeConfigsResource(4, "1", ["retention.enforce"])
    request = DescribeConfigsRequest([resource])
    (result,) = (await call(broker, "describe_configs", 4, request)).results
    return bool(result.configs[0].value == "true")


def test_a_new_folder_enforces_it() -> None:
    async def scenario() -> None:
        async with started(live()) as broker:
            assert broker.lanes.controller.view.is_retention_enforced
            assert await is_shown_enforced(broker)

    run(Random(1), scenario())


def test_retention_takes_nothing_of_an_open_transaction() -> None:
    async def scenario() -> None:
        async with started(live()) as broker:
            await create(broker, "t", {})
            await produce(broker, "t", 0)
            partition = state_of(broker).partition("t", 0)
            assert partition is not None
            partition.transactions.last_stable_offset = Offset(0)
            broker.lanes.controller.submit(DeleteExpired(((partition.number, Offset(1)),)))
            assert log_start(broker, "t") == 0

    run(Random(1), scenario())


def test_facts_of_retention_are_read_again() -> None:
    for fact in (facts.RetentionEnforced(), facts.Settled((1,), (2, 3), 4)):
        assert facts.decode(facts.encode(fact)) == fact


def test_a_policy_of_the_broker_holds_for_topics_without_one() -> None:
    async def scenario() -> None:
        config = BrokerConfig(
            message_max_bytes=20_000,
            journal_segment_bytes=CONFIG.journal_segment_bytes,
            log_cleanup_policy="compact",
        )
        async with started(live(config=config)) as broker:
            await create(broker, "compacted", {})
            await create(broker, "deleted", {"cleanup.policy": "delete"})
            batch = encode_batch([Record(None, b"without a key")])
            codes = []
            for topic in ("compacted", "deleted"):
                answer = await call(broker, "produce", 9, produce_request(topic, batch))
                codes.append(answer.responses[0].partition_responses[0].error_code)
            assert codes == [InvalidRecord.code, 0]

    run(Random(1), scenario())


async def configure_brokers(broker: Broker, name: str, setting: str, value: str) -> None:
    resource = AlterConfigsResource(4, name, [AlterableConfig(setting, 0, value)])
    request = IncrementalAlterConfigsRequest([resource])
    (answer,) = (await call(broker, "incremental_alter_configs", 1, request)).responses
    assert answer.error_code == 0, answer.error_message


def test_what_all_topics_keep_may_be_changed_while_the_broker_runs() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, "t", {})
            await create(broker, "own", {"retention.ms": str(5 * HOUR_MS)})
            for topic in ("t", "own"):
                await produce(broker, topic, clock.wall_ms() - 2 * HOUR_MS)
                await produce(broker, topic, clock.wall_ms())
            await pass_check()
            assert log_start(broker, "t") == 0
            await configure_brokers(broker, "", "log.retention.ms", str(HOUR_MS))
            await pass_check()
            assert (log_start(broker, "t"), log_start(broker, "own")) == (1, 0)

    run(Random(1), scenario())


def test_a_shorter_pause_between_two_looks_counts_at_once() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await configure_brokers(broker, "1", "log.retention.check.interval.ms", str(HOUR_MS))
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            await produce(broker, "t", clock.wall_ms() - 2 * HOUR_MS)
            await pass_check()
            assert log_start(broker, "t") == 0
            await configure_brokers(broker, "1", "log.retention.check.interval.ms", str(CHECK_MS))


def test_records_go_though_settling_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does with a worker that is stopped, or where more comes in than can be settled."""

    async def never_done(*_: object) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            monkeypatch.setattr(broker.lanes.controller.settling, "round", never_done)
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            await pass_check()
            await produce(broker, "t", clock.wall_ms() - 2 * HOUR_MS)
            await pass_check()
            assert log_start(broker, "t") == 1

    run(Random(1), scenario())


def test_records_without_a_time_are_not_old() -> None:
    async def scenario() -> None:
        async with started(live()) as broker:
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            for _ in range(2):
                await produce(broker, "t", -1)
            await pass_check()
            await asyncio.sleep(3 * HOUR_MS / 1000)
            assert log_start(broker, "t") == 0

    run(Random(1), scenario())


def test_what_a_topic_keeps_is_looked_at_again_when_its_records_go() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            await produce(broker, "t", clock.wall_ms() - 2 * HOUR_MS)
            retention, lane = Retention(broker), broker.lanes.controller
            found = await retention._expired(lane, lane.view.partition("t", 0))
            assert found is not None
            await retention._delete(
                lane, [found._replace(keeping=Keeping(False, True, None, None))]
            )
            assert log_start(broker, "t") == 0
            await retention._delete(lane, [found])
            assert log_start(broker, "t") == 1

    run(Random(1), scenario())


def test_damage_is_logged_once_and_counted_while_all_else_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[tuple[str, object]] = []
    monkeypatch.setattr(
        log, "warning", lambda event, **values: logged.append((event, values.get("partition")))
    )

    async def scenario() -> None:
        device = MemoryDevice(Random(1))
        clock = LoopClock()
        async with started(opened(device, Random(1), RETAINING, clock)) as broker:
            for topic in ("damaged", "whole", "gone"):
                await create(broker, topic, {})
                await produce(broker, topic, clock.wall_ms())
            await fill(broker, "gone", clock.wall_ms(), 6)
            found = journal_of(broker).index.find(
                broker.lanes.controller.view.partition("damaged", 0).number, 0
            )
            assert found is not None
            device.flip_bit(names.segment(0), found.position + 70)
            request = DeleteTopicsRequest([DeleteTopicState("gone")])
            await call(broker, "delete_topics", 6, request)
            logged.clear()
            for _ in range(3):
                await pass_check()
            assert len(journal_of(broker).segments.bases) <= 2
            assert logged == [("a partition cannot be read", "damaged-0")]
            assert broker.unreadable_count == 1
            # What only cannot be reached is told of, and not counted as damaged.
            broker.found_unreadable(TopicPartition("whole", 0), StorageAway("no answer"))
            assert logged[-1] == ("a partition cannot be read", "whole-0")
            assert broker.unreadable_count == 1

    run(Random(1), scenario())


def test_a_round_compacts_all_that_is_worth_it_a_volume_at_a_time() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        config = replace(
            RETAINING, journal_volume_bytes=2**22, log_retention_check_interval_ms=HOUR_MS
        )
        async with started(live(clock=clock, config=config)) as broker:
            topics = [f"t-{number}" for number in range(4)]
            for topic in topics:
                await create(broker, topic, {"cleanup.policy": "compact"})
                await fill(broker, topic, clock.wall_ms(), 2)
            await fill(broker, topics[0], clock.wall_ms(), 2)
            await asyncio.sleep(1)
            await Retention(broker).round()
            assert broker.lanes.controller.compacting.pass_count > 1
            assert len(state_of(broker).compacted) == len(topics)

    run(Random(1), scenario())


@pytest.mark.parametrize("is_piled_up", [False, True])
def test_what_is_still_to_be_compacted_is_not_copied_before(
    is_piled_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless too much waits. What nothing lives in goes meanwhile all the same."""
    if is_piled_up:
        monkeypatch.setattr("semel.lane.settling.PILE_MAX", 1)
    left: list[int] = []

    async def scenario() -> None:
        clock = LoopClock()
        config = replace(
            RETAINING, journal_volume_bytes=2**22, log_retention_check_interval_ms=HOUR_MS
        )
        async with started(live(clock=clock, config=config)) as broker:
            topics = [f"t-{number}" for number in range(4)]
            for topic in topics:
                await create(broker, topic, {"cleanup.policy": "compact"})
                await fill(broker, topic, clock.wall_ms(), 2)
            await asyncio.sleep(1)
            lane = broker.lanes.controller
            compact = lane.settling.compact

            async def overtaken(*arguments: Any) -> Any:
                left.append(journal_of(broker).sealed()[0].base)
                made = await compact(*arguments)
                await fill(broker, topics[0], clock.wall_ms(), 4)
                return made

            with monkeypatch.context() as patch:
                patch.setattr(lane.settling, "compact", overtaken)
                await Retention(broker).round()
            assert lane.compacting.pass_count > 1
            assert (lane.settling.bytes_settled > 0) == is_piled_up
            assert left[-1] > left[0]
            # Nor is what has come meanwhile.
            await Retention(broker).round()
            assert (lane.settling.bytes_settled > 0) == is_piled_up
            assert sum(each.end - each.base for each in journal_of(broker).sealed()) < 2**22

    run(Random(1), scenario())


def test_that_topics_are_not_compacted_is_logged_once_until_they_are_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(log, "warning", lambda event, **values: logged.append(event))

    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            maker = broker.lanes.controller.settling._maker
            compact = maker.compact

            async def broken(plan: CompactionPlan) -> Made:
                raise OSError("the process that makes volumes has ended")

            await create(broker, "t", {"cleanup.policy": "compact"})
            for does, count in ((broken, 1), (compact, 1), (broken, 2)):
                monkeypatch.setattr(maker, "compact", does)
                await fill(broker, "t", clock.wall_ms(), 4)
                for _ in range(3):
                    await pass_check()
                assert len(logged) == count, logged

    run(Random(1), scenario())


async def configure(broker: Broker, topic: str, setting: str, value: str) -> None:
    resource = AlterConfigsResource(2, topic, [AlterableConfig(setting, 0, value)])
    request = IncrementalAlterConfigsRequest([resource])
    (answer,) = (await call(broker, "incremental_alter_configs", 1, request)).responses
    assert answer.error_code == 0, answer.error_message


async def remake(broker: Broker, topic: str) -> None:
    await call(broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState(topic)]))
    await create(broker, topic, {"cleanup.policy": "compact"})
    await produce(broker, topic, 0)


async def keep_longer(broker: Broker, topic: str) -> None:
    await configure(broker, topic, "min.compaction.lag.ms", str(HOUR_MS))


async def keep_all(broker: Broker, topic: str) -> None:
    await configure(broker, topic, "cleanup.policy", "delete")


@pytest.mark.parametrize("change", [keep_all, keep_longer, remake])
def test_what_compaction_has_made_counts_only_if_the_topic_still_wants_it(
    change: Callable[[Broker, str], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        device = MemoryDevice(Random(1))
        clock = LoopClock()
        async with started(opened(device, Random(1), RETAINING, clock)) as broker:
            lane = broker.lanes.controller
            for topic in ("changed", "same"):
                await create(broker, topic, {"cleanup.policy": "compact"})
                await fill(broker, topic, clock.wall_ms(), 2)
            maker = lane.settling._maker
            compact = maker.compact

            async def overtaken(plan: CompactionPlan) -> Made:
                made = await compact(plan)
                assert len(made.compacted) == 2
                monkeypatch.undo()
                await change(broker, "changed")
                return made

            monkeypatch.setattr(maker, "compact", overtaken)
            await lane.compacting.round(Policies(broker, lane))
            assert maker.compact is not overtaken, "there was no pass"
            parts = state_of(broker).compacted
            assert list(parts) == [lane.view.partition("same", 0).number]
            changed = lane.view.partition("changed", 0)
            found = await lane.log.find(
                [Wanted(changed, Offset(0), changed.high_watermark, 2**20)], 2**20
            )
            (stored,) = await lane.log.read(found, with_aborted=False)
            assert isinstance(stored, Stored)
            assert record_batch.read(stored.batches[0]).record_count == 1
            await lane.settling.round(pytest.fail)
            assert state_of(broker).named_volumes() == {
                int(name.removesuffix(names.VOLUME))
                for name in device.names()
                if name.endswith(names.VOLUME)
            }

    run(Random(1), scenario())


def segments_begun(broker: Broker) -> list[int]:
    return list(journal_of(broker).segments.bases)


async def watch_segments(broker: Broker, seconds: int, step_s: int) -> set[int]:
    begun: set[int] = set()
    for _ in range(seconds // step_s):
        await asyncio.sleep(step_s)
        begun |= set(segments_begun(broker))
    return begun


@pytest.mark.parametrize(
    "settings", [{"segment.ms": str(HOUR_MS)}, {"max.compaction.lag.ms": str(HOUR_MS)}]
)
@pytest.mark.parametrize("has_time", [True, False])
def test_a_small_compacted_topic_is_compacted_when_its_records_are_old_enough(
    settings: dict[str, str], has_time: bool
) -> None:
    async def scenario() -> None:
        clock = LoopClock()
        config = replace(RETAINING, log_retention_check_interval_ms=HOUR_MS // 10)
        async with started(live(clock=clock, config=config)) as broker:
            lane = broker.lanes.controller
            await create(broker, "t", {"cleanup.policy": "compact", **settings})
            for _ in range(100):
                await produce(broker, "t", clock.wall_ms() if has_time else -1)
            partition = lane.view.partition("t", 0)
            size = await lane.log.bytes_of(partition)
            await asyncio.sleep(0.8 * HOUR_MS / 1000)
            assert await lane.log.bytes_of(partition) == size
            assert segments_begun(broker) == [0]
            await asyncio.sleep(0.8 * HOUR_MS / 1000)
            assert await lane.log.bytes_of(partition) < size / 50
            begun = segments_begun(broker)
            assert len(begun) <= 2
            # What is clean needs no further pass.
            assert await watch_segments(broker, 2 * HOUR_MS // 1000, HOUR_MS // 4000) == set(begun)

    run(Random(1), scenario())


def test_records_are_compacted_after_a_week_unless_a_setting_says_otherwise() -> None:
    """Kafka's default of segment.ms."""
    config = BrokerConfig()
    assert compaction_of({}, config).roll_ms == 7 * 24 * HOUR_MS
    for name in ("segment.ms", "max.compaction.lag.ms"):
        assert compaction_of({name: "5"}, config).roll_ms == 5
    settings = {"segment.ms": "5", "min.compaction.lag.ms": "6"}
    assert compaction_of(settings, config).roll_ms == 6


def test_the_journal_is_rolled_for_small_topics_only_now_and_then() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        config = replace(RETAINING, log_retention_check_interval_ms=1_000)
        async with started(live(clock=clock, config=config)) as broker:
            settings = {"cleanup.policy": "compact", "max.compaction.lag.ms": "1"}
            await create(broker, "t", settings)
            begun: set[int] = set()
            for _ in range(600):
                await produce(broker, "t", clock.wall_ms())
                begun |= await watch_segments(broker, 1, 1)
            partition = broker.lanes.controller.view.partition("t", 0)
            batch_size = len(encode_batch([Record(b"k", bytes(100), clock.wall_ms())]))
            size = await broker.lanes.controller.log.bytes_of(partition)
            assert size < 3 * batch_size * ROLL_PAUSE_MS // 1_000
            assert 5 < len(begun) <= 2 + 600_000 // ROLL_PAUSE_MS

    run(Random(1), scenario())


def test_committed_offsets_of_a_small_broker_are_compacted() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        config = replace(CONFIG, log_retention_check_interval_ms=CHECK_MS, log_roll_ms=HOUR_MS)
        async with started(live(clock=clock, config=config)) as broker:
            await create(broker, "t", {})
            for offset in range(200):
                partition = OffsetCommitRequestPartition(0, committed_offset=offset)
                topic = OffsetCommitRequestTopic("t", partitions=[partition])
                request = OffsetCommitRequest("g", topics=[topic])
                await call(broker, "offset_commit", 8, request)
            lane = broker.lanes.controller
            (partition_of_g,) = [
                each
                for each in lane.view.partitions()
                if each.topic_partition.topic == "__consumer_offsets" and each.log_end_offset
            ]
            size = await lane.log.bytes_of(partition_of_g)
            await asyncio.sleep(1.5 * HOUR_MS / 1000)
            assert await lane.log.bytes_of(partition_of_g) < size / 50

    run(Random(1), scenario())


def test_a_small_topic_shows_nothing_that_is_too_old_though_no_journal_file_is_full() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        async with started(live(clock=clock)) as broker:
            lane = broker.lanes.controller
            await create(broker, "t", {"retention.ms": str(HOUR_MS)})
            await produce(broker, "t", clock.wall_ms())
            await asyncio.sleep(HOUR_MS / 1000 - 1)
            assert await lane.log.bytes_of(lane.view.partition("t", 0)) > 0
            await pass_check()
            assert segments_begun(broker) == [0]
            assert log_start(broker, "t") == 1
            assert await lane.log.bytes_of(lane.view.partition("t", 0)) == 0

    run(Random(1), scenario())
