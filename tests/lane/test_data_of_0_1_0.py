"""What Semel 0.1.0 has left behind opens: a folder of a killed broker, and of a stopped one.

In both, producer 0 has written one batch to partition 0 of `t`, transactional id `idle` one in a
transaction to partition 1, and group `idle` has committed offset 5. Frames and checkpoint hold one
time, that of the wall clock.
"""

import tarfile
from pathlib import Path

import pytest

from semel.errors import NONE
from semel.groups.settings import GroupSettings
from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.settings import JournalSettings
from semel.lane.commands import LaneSettings
from semel.lane.lane import Lane
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.types import TransactionalId
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.world import SystemRandomness
from support.inside import partitions_of
from support.raw_client import RawClient, fetched_values, produce
from support.transactional_wire import committed_offset

DATA = Path(__file__).parent / "data_of_0_1_0"
SETTINGS = {"journal.segment.bytes": 1_500_000, "message.max.bytes": 100_000}
WRITTEN_MS = 1_794_827_000_000
"""A minute before what is in the folders, at most."""
DAY_MS = 86_400_000
BATCH = encode_batch(
    [Record(None, b"once", 1_000)], producer_id=0, producer_epoch=0, base_sequence=0
)


@pytest.fixture(params=["killed", "stopped"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_broker_goes_on_with_it_and_with_what_it_makes_of_it(folder: Path) -> None:
    with Broker(data=folder, settings=SETTINGS) as broker:
        for epoch, end in enumerate((broker.kill, broker.stop, broker.kill), 2):
            with RawClient(broker) as client:
                assert produce(client, "t", BATCH).base_offset == 0
                assert fetched_values(client, "t") == [b"once"]
                assert committed_offset(client, "idle", "t") == (5, NONE)
                request = InitProducerIdRequest("idle", 60_000)
                given = client.call("init_producer_id", 4, request)
                assert (given.producer_id, given.producer_epoch) == (1, epoch)
            end()
            broker.start()


class StoppedClocks:
    def __init__(self, wall_ms: int) -> None:
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("wall_ms", "is_idle"),
    [(WRITTEN_MS + 2 * DAY_MS, True), (WRITTEN_MS + 3_600_000, False), (0, False)],
)
def test_its_times_are_counted_on(folder: Path, wall_ms: int, is_idle: bool) -> None:
    """A wrong clock forgets nothing early."""
    device = FileDevice(folder, synced=False)
    journal = FileJournal.open(device, JournalSettings(segment_bytes=1_500_000))
    settings = LaneSettings(GroupSettings())
    lane = Lane(journal, settings, StoppedClocks(wall_ms), SystemRandomness())
    before_ms = lane._clock.now_ms() - DAY_MS
    idle = set(lane._state.transactions.idle_since(before_ms, 100))
    assert (TransactionalId("idle") in idle) == is_idle
    partition = partitions_of(lane._state, "t")[0]
    (producer_id,) = partition.producers
    assert partition.may_forget(producer_id, before_ms) == is_idle
    device.stop()
