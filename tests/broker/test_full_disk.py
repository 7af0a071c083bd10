"""A disk without room: writes are refused and change nothing, reads go on, room heals it."""

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.handled_producer import HandledProducer
from semel.broker import log
from semel.broker.broker import Broker as InMemory
from semel.broker.metrics import Collector
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.types import GroupId
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support import handled
from support.handled import Machine, call, on_a
from support.inside import journal_of, partitions_of, state_of
from support.kafka_codes import NONE
from support.raw_client import (
    METRICS,
    RawClient,
    fetched_values,
    metric,
    produce,
    produce_request,
    readiness,
)
from support.seeded_loop import elapse

STORAGE_ERROR, COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID = 56, 15, 25
MIB = 2**20
SETTINGS = {
    "journal.segment.bytes": 2 * MIB,
    "message.max.bytes": 200_000,
    # These records are very old.
    "log.retention.ms": -1,
}


@pytest.fixture
def small_disk() -> Iterator[Path]:
    # Not below pytest's own folder, which other runs tidy up while this one has a mount there.
    with tempfile.TemporaryDirectory(prefix="semel-small-disk-") as name:
        mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", name]
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def fill(folder: Path) -> Path:
    """Take every byte that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(64 * 1024))
        except OSError:
            pass
    return filler


def batch_of(number: int) -> bytes:
    return encode_batch([Record(None, b"%04d" % number + bytes(100_000), 1_000)])


def write_until_refused(client: RawClient) -> int:
    """How many were taken."""
    for number in range(1_000):
        answer = produce(client, "t", batch_of(number))
        if answer.error_code != 0:
            assert answer.error_code == STORAGE_ERROR
            assert "no room" in answer.error_message
            return number
    raise AssertionError("the disk never filled")


def commit(client: RawClient) -> int:
    """The error code of a commit that takes a few KB."""
    partition = OffsetCommitRequestPartition(0, committed_offset=1, committed_metadata="m" * 4_000)
    request = OffsetCommitRequest(
        "simple", -1, "", None, topics=[OffsetCommitRequestTopic("t", partitions=[partition])]
    )
    (topic,) = client.call("offset_commit", 8, request).topics
    (answer,) = topic.partitions
    return int(answer.error_code)


def create_until_refused(client: RawClient) -> None:
    """Topics, which take fewer bytes than anything else."""
    for number in range(10_000):
        topics = CreateTopicsRequest([CreatableTopic(f"t{number:05d}", 1, 1)])
        (answer,) = client.call("create_topics", 7, topics).topics
        if answer.error_code != 0:
            assert answer.error_code == STORAGE_ERROR
            return
    raise AssertionError("the disk never filled")


def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_room(
    small_disk: Path,
) -> None:
    data = small_disk / "data"
    with Broker(data=data, settings=SETTINGS, arguments=METRICS) as broker:
        with RawClient(broker) as client:
            client.create_topic("t")
            client.create_group_topic()
            filler = fill(small_disk)
            stored = write_until_refused(client)
            while commit(client) == 0:
                pass
            create_until_refused(client)
            frames = metric(broker, "semel_journal_frames")
            assert readiness(broker) == (200, "leading", False)
            assert readiness(broker, "?for=writes") == (503, "leading", False)

            for number in range(3):
                assert produce(client, "t", batch_of(number)).error_code == STORAGE_ERROR
            assert commit(client) == COORDINATOR_NOT_AVAILABLE
            wanted = MetadataRequest([MetadataRequestTopic(name="one-more")])
            (refused,) = client.call("metadata", 12, wanted).topics
            assert refused.error_code != 0

            assert metric(broker, "semel_journal_frames") == frames
            assert client.end_offset("t") == stored
            values = fetched_values(client, "t")
            assert [value and value[:4] for value in values] == [
                b"%04d" % number for number in range(stored)
            ]
            (found,) = client.call(
                "find_coordinator", 4, FindCoordinatorRequest(coordinator_keys=["g"])
            ).coordinators
            assert found.error_code == 0

            filler.unlink()
            while produce(client, "t", batch_of(stored)).error_code == STORAGE_ERROR:
                pass
            assert client.end_offset("t") == stored + 1
            assert client.call("init_producer_id", 4, InitProducerIdRequest()).error_code == 0
        broker.kill()
        broker.start()
        with RawClient(broker) as client:
            assert client.end_offset("t") == stored + 1


def test_a_broker_killed_on_a_full_disk_starts_again_with_all_it_had(small_disk: Path) -> None:
    with Broker(data=small_disk / "data", settings=SETTINGS) as broker:
        with RawClient(broker) as client:
            client.create_topic("t")
            filler = fill(small_disk)
            stored = write_until_refused(client)
        broker.kill()
        broker.start()
        with RawClient(broker) as client:
            assert client.end_offset("t") == stored
            assert produce(client, "t", batch_of(0)).error_code == STORAGE_ERROR
            assert len(fetched_values(client, "t")) == stored
            filler.unlink()
            while produce(client, "t", batch_of(stored)).error_code == STORAGE_ERROR:
                pass
        broker.restart()
        with RawClient(broker) as client:
            assert client.end_offset("t") == stored + 1


# On a disk in memory.

CONFIG = replace(handled.CONFIG, journal_segment_bytes=1_500_000, log_retention_ms=-1)


async def create_topic(broker: InMemory) -> None:
    topics = CreateTopicsRequest([CreatableTopic("t", 4, 1)])
    await call(broker, "create_topics", 7, topics)


async def produce_code(broker: InMemory, size: int) -> int:
    batch = encode_batch([Record(None, bytes(size), 1_000)])
    answer = await call(broker, "produce", 9, produce_request("t", batch, partition=3))
    return int(answer.responses[0].partition_responses[0].error_code)


async def fill_memory(broker: InMemory) -> None:
    """Until there is no room for a record of one byte."""
    for size in (10_000, 1_000, 100, 1):
        while (code := await produce_code(broker, size)) == NONE:
            pass
        assert code == STORAGE_ERROR


async def opened_transactions(broker: InMemory, *names: str) -> list[HandledProducer]:
    producers = [HandledProducer(broker, name) for name in names]
    for partition, producer in enumerate(producers):
        assert await producer.init(timeout_ms=5_000) == NONE
        assert (await producer.produce("t", b"v", partition % 3)).error_code == NONE
    return producers


async def ask_for_ids_until_refused(broker: InMemory) -> None:
    """With and without a transactional id, a thousand times more than it takes."""
    refused = 0
    for number in range(5_000):
        code = await HandledProducer(broker, f"new-{number}" if number % 2 else None).init()
        refused += code != NONE
        assert code in (NONE, COORDINATOR_NOT_AVAILABLE)
        if refused == 50:
            return
    raise AssertionError("a full disk has room for any number of producers")


@on_a(Machine, CONFIG)
async def test_on_a_full_disk_everything_that_is_open_can_be_ended(machine: Machine) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        # Their ends take more than the whole headroom.
        names = [f"open-{number}" for number in range(400)]
        producers = await opened_transactions(broker, *names)
        machine.device.is_full = True
        await fill_memory(broker)
        await ask_for_ids_until_refused(broker)
        for number, producer in enumerate(producers):
            if number % 4 == 0:
                assert await producer.end(commit=True) == NONE
            elif number % 4 == 1:
                assert await producer.end(commit=False) == NONE
            elif number % 4 == 2:
                assert await producer.init() == NONE
        await elapse(20)  # Their timers end the rest.
        assert state_of(broker).transactions.open() == ()
        partitions = partitions_of(state_of(broker), "t")[:3]
        assert sum(each.last_stable_offset for each in partitions) == 2 * len(producers)


@on_a(Machine, CONFIG)
async def test_a_full_disk_is_opened_again_and_again_whatever_was_asked_of_it(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        many = encode_batch([Record(None, b"", 1_000)] * 1_500)
        for _ in range(3):
            await call(broker, "produce", 9, produce_request("t", many, partition=3))
        await opened_transactions(broker, *(f"open-{number}" for number in range(50)))
        machine.device.is_full = True
        await fill_memory(broker)
        await ask_for_ids_until_refused(broker)
        assert await delete_records_until_refused(broker) > 500
        await broker.lanes.controller.until_durable()
    for _ in range(3):
        machine.device.kill()
        async with machine.broker() as broker:
            assert journal_of(broker).frames_appended == 0
    for _ in range(30):
        machine.device.power_loss()
        async with machine.broker() as broker:
            await fill_memory(broker)
            await delete_records_until_refused(broker)
    assert state_of(broker).term == 30
    assert state_of(broker).transactions.open() == ()
    partitions = partitions_of(state_of(broker), "t")[:3]
    assert all(each.last_stable_offset == each.high_watermark for each in partitions)


async def delete_records_until_refused(broker: InMemory) -> int:
    """One by one; how many. They end something, and may take more room than others."""
    start = partitions_of(state_of(broker), "t")[3].log_start_offset
    for count in range(4_000):
        wanted = DeleteRecordsTopic("t", [DeleteRecordsPartition(3, start + count + 1)])
        answer = await call(broker, "delete_records", 2, DeleteRecordsRequest([wanted]))
        (deleted,) = answer.topics[0].partitions
        if deleted.error_code != NONE:
            assert deleted.error_code == STORAGE_ERROR
            return count
    raise AssertionError("there is room for everything that ends something")


@on_a(Machine, CONFIG)
async def test_on_a_full_disk_an_abort_of_nothing_writes_nothing_and_waits_for_room(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        (still_open,) = await opened_transactions(broker, "open")
        application = HandledProducer(broker, "application")
        assert await application.init() == NONE
        machine.device.is_full = True
        await fill_memory(broker)
        end = journal_of(broker).end
        for _ in range(500):
            assert (await application.produce("t", b"v")).error_code == STORAGE_ERROR
            assert await application.end(commit=False) == COORDINATOR_NOT_AVAILABLE
        assert journal_of(broker).end == end
        assert await still_open.end(commit=True) == NONE
        machine.device.is_full = False
        await elapse(3)
        assert await application.end(commit=False) == NONE
        assert (await application.produce("t", b"v")).error_code == NONE
        assert await application.end(commit=True) == NONE


@on_a(Machine, CONFIG)
async def test_a_full_disk_is_told_and_counted_once_it_refuses_and_once_it_does_not(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, Any]] = []

    def remember(event: str, **values: Any) -> None:
        told.append((event.split(":", maxsplit=1)[0], values.get("free_bytes")))

    monkeypatch.setattr(log, "warning", remember)
    # Three segments and a piece, the ballast, and the checkpoints.
    machine.device.capacity_bytes = 5_200_000
    async with machine.broker() as broker:
        await create_topic(broker)
        stored = 0
        while await produce_code(broker, 10_000) == NONE:
            stored += 1
        assert stored * 10_000 > 0.85 * machine.device.capacity_bytes
        for _ in range(20):
            await elapse(1)
            assert await produce_code(broker, 10_000) == STORAGE_ERROR
        events = [event for event, _ in told if "checkpoint" not in event]
        assert events.count("the disk is filling") == 1
        room = [event for event in events if event != "the disk is filling"]
        assert room == [
            "the disk has no room for a whole segment of the journal",
            "writes are refused until the disk has room",
        ]
        assert {free for _, free in told} == {handled.FREE_BYTES}
        shown = samples(broker)
        assert shown["semel_writes_refused_total"] == 21
        assert shown["semel_disk_free_bytes"] == handled.FREE_BYTES
        assert shown["semel_journal_unused_bytes"] < CONFIG.journal_segment_bytes // 4
        told.clear()
        machine.device.capacity_bytes = None
        await elapse(3)
        assert [event for event, _ in told] == ["writes are taken again"]
        assert await produce_code(broker, 10_000) == NONE
        assert samples(broker)["semel_writes_refused_total"] == 21


def samples(broker: InMemory) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in Collector(broker).collect()
        for sample in family.samples
        if not sample.labels
    }


@on_a(Machine, CONFIG)
async def test_on_a_full_disk_a_group_still_ends_with_the_session_of_its_last_member(
    machine: Machine,
) -> None:
    joining = JoinGroupRequest(
        "g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    topics = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    writing = produce_request("t", encode_batch([Record(None, bytes(10_000), 1_000)]))
    async with machine.broker() as broker:
        await call(broker, "create_topics", 7, topics)
        member = await call(broker, "join_group", 3, joining)
        syncing = SyncGroupRequest("g", member.generation_id, member.member_id)
        assert (await call(broker, "sync_group", 3, syncing)).error_code == 0
        machine.device.is_full = True
        codes = [0]
        while codes == [0]:
            answer = await call(broker, "produce", 9, writing)
            codes = [each.error_code for each in answer.responses[0].partition_responses]
        assert codes == [STORAGE_ERROR]
        await elapse(20)
        group = state_of(broker).groups.describe(GroupId("g"))
        assert group is not None
        assert (group.state, group.members) == ("Empty", ())


@on_a(Machine, CONFIG)
async def test_what_a_group_has_no_room_for_has_not_happened(machine: Machine) -> None:
    joining = JoinGroupRequest(
        "g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    topics = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    writing = produce_request("t", encode_batch([Record(None, bytes(10_000), 1_000)]))
    offsets = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
    async with machine.broker() as broker:
        await call(broker, "create_topics", 7, topics)
        member = await call(broker, "join_group", 3, joining)
        machine.device.is_full = True
        codes = [0]
        while codes == [0]:
            answer = await call(broker, "produce", 9, writing)
            codes = [each.error_code for each in answer.responses[0].partition_responses]
        identity = ("g", member.generation_id, member.member_id)
        assigned = [SyncGroupRequestAssignment(member.member_id, bytes(20_000))]
        syncing = SyncGroupRequest(*identity, assignments=assigned)
        for _ in range(20):
            answer = await call(broker, "sync_group", 3, syncing)
            assert answer.error_code == COORDINATOR_NOT_AVAILABLE
            # A sign of life needs no room, nor does a refusal.
            beat = await call(broker, "heartbeat", 3, HeartbeatRequest(*identity))
            assert beat.error_code == NONE
            stranger = OffsetCommitRequest("g", 1, "stranger", None, topics=offsets)
            (topic,) = (await call(broker, "offset_commit", 8, stranger)).topics
            assert topic.partitions[0].error_code == UNKNOWN_MEMBER_ID
            await elapse(0.2)
        machine.device.is_full = False
        await elapse(3)
        answer = await call(broker, "sync_group", 3, syncing)
        assert (answer.error_code, answer.assignment) == (NONE, bytes(20_000))


@on_a(Machine, CONFIG)
async def test_on_a_full_disk_a_newcomer_does_not_disturb_a_group(machine: Machine) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    joining = JoinGroupRequest("g", 60_000, 10_000, "", None, "consumer", protocols)
    topics = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    writing = produce_request("t", encode_batch([Record(None, bytes(10_000), 1_000)]))
    async with machine.broker() as broker:
        await call(broker, "create_topics", 7, topics)
        member = await call(broker, "join_group", 3, joining)
        syncing = SyncGroupRequest("g", member.generation_id, member.member_id)
        assert (await call(broker, "sync_group", 3, syncing)).error_code == NONE
        machine.device.is_full = True
        codes = [NONE]
        while codes == [NONE]:
            answer = await call(broker, "produce", 9, writing)
            codes = [each.error_code for each in answer.responses[0].partition_responses]
        code = NONE
        while code == NONE:
            answer = await call(broker, "init_producer_id", 4, InitProducerIdRequest(None))
            code = answer.error_code
        newcomer = await call(broker, "join_group", 3, joining)
        assert newcomer.error_code == COORDINATOR_NOT_AVAILABLE
        unknown = JoinGroupRequest("g", 60_000, 10_000, "no one", None, "consumer", protocols)
        assert (await call(broker, "join_group", 3, unknown)).error_code == UNKNOWN_MEMBER_ID
        beat = HeartbeatRequest("g", member.generation_id, member.member_id)
        assert (await call(broker, "heartbeat", 3, beat)).error_code == NONE
