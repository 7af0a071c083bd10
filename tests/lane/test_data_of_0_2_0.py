"""What Semel 0.2.0 has left behind opens and is carried over: a folder of a killed broker, and of a
stopped one.

In both, transactional id `shop` has written 60 transactions of one record to each partition of `t`,
each third of which was aborted, and group `readers` has committed offset 5 of partition 0. There
are two segments, and an index with aborted transactions.
"""

import tarfile
from pathlib import Path

import pytest

from semel import Producer, TopicPartition
from semel.cli.main import main
from semel.journal import names
from semel.testing import Broker
from support import stored

DATA = Path(__file__).parent / "data_of_0_2_0"
SETTINGS = {"journal.segment.bytes": 1_500_000, "message.max.bytes": 100_000}
COMMITTED = [number for number in range(60) if number % 3]


@pytest.fixture(params=["killed", "stopped"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_broker_goes_on_with_it_and_with_what_it_makes_of_it(folder: Path) -> None:
    assert names.FORMAT not in {path.name for path in folder.iterdir()}
    with Broker(data=folder, settings=SETTINGS) as broker:
        assert (folder / names.FORMAT).read_bytes() == b"format 1\n"
        numbers = COMMITTED.copy()
        for number, end in enumerate((broker.kill, broker.stop, broker.kill), 60):
            for found in stored.numbers(broker, "t", is_committed_only=True):
                assert found == numbers
            offsets = stored.group_offsets(broker, "readers")
            assert offsets == {TopicPartition("t", 0): 5}
            with (
                Producer(broker.bootstrap_servers, transactional_id="shop") as producer,
                producer.transaction(),
            ):
                for partition in range(2):
                    producer.send("t", value=str(number), partition=partition)
            numbers.append(number)
            end()
            broker.start()


def test_all_of_it_is_whole_before_and_after(folder: Path) -> None:
    assert main(["log", "check", str(folder)]) == 0
    with Broker(data=folder, settings=SETTINGS):
        pass
    assert main(["log", "check", str(folder)]) == 0


def test_it_can_be_backed_up_before_it_is_carried_over(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert main(["log", "backup", str(folder), str(copy)]) == 0
    with Broker(data=copy, settings=SETTINGS) as broker:
        for found in stored.numbers(broker, "t", is_committed_only=True):
            assert found == COMMITTED
