"""A disk without room: writes are refused and change nothing, reads go on, room heals it."""

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from semel.journal.memory import MemoryDevice
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.types import GroupId
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.sync_group import SyncGroupRequest
from support import handled
from support.handled import call, opened, started
from support.raw_client import (
    METRICS,
    RawClient,
    fetched_values,
    metric,
    produce,
    produce_request,
)
from support.seeded_loop import elapse, run

STORAGE_ERROR, COORDINATOR_NOT_AVAILABLE = 56, 15
MIB = 2**20
SETTINGS = {"journal.segment.bytes": 2 * MIB, "message.max.bytes": 200_000}


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
            frames = metric(broker, "semel_journal_frames")

            for number in range(3):
                assert produce(client, "t", batch_of(number)).error_code == STORAGE_ERROR
            assert commit(client) == COORDINATOR_NOT_AVAILABLE
            wanted = MetadataRequest([MetadataRequestTopic(name="new")])
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


def test_on_a_full_disk_a_group_still_ends_with_the_session_of_its_last_member() -> None:
    rng = Random(1)
    config = replace(handled.CONFIG, journal_segment_bytes=1_500_000)
    joining = JoinGroupRequest(
        "g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    topics = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    writing = produce_request("t", encode_batch([Record(None, bytes(10_000), 1_000)]))

    async def main() -> None:
        device = MemoryDevice(rng)
        broker = opened(device, rng, config)
        async with started(broker):
            await call(broker, "create_topics", 7, topics)
            member = await call(broker, "join_group", 3, joining)
            syncing = SyncGroupRequest("g", member.generation_id, member.member_id)
            assert (await call(broker, "sync_group", 3, syncing)).error_code == 0
            device.is_full = True
            codes = [0]
            while codes == [0]:
                answer = await call(broker, "produce", 9, writing)
                codes = [each.error_code for each in answer.responses[0].partition_responses]
            assert codes == [STORAGE_ERROR]
            await elapse(20)
            group = broker.lane.state.groups.describe(GroupId("g"))
            assert group is not None
            assert (group.state, group.members) == ("Empty", ())

    run(rng, main())
