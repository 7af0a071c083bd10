"""What a newer version has written in a lane's journal is refused before anything is changed."""

from pathlib import Path
from random import Random

import pytest

from semel.errors import NewerFormat
from semel.journal import names
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.lane import frame, snapshot_format
from semel.lane.contents import CONTENTS
from semel.testing import Broker
from semel.testing.broker import BrokerDidNotStart
from support import seeded_loop
from support.journal_world import RememberingOn

SETTINGS = JournalSettings(segment_bytes=8192)


def contents_of(device: MemoryDevice) -> dict[str, bytes]:
    return {name: device.read(name, 0, device.size(name)) for name in device.names()}


@pytest.mark.parametrize(
    ("first", "is_checkpointed", "sentence"),
    [
        (
            frame.LAYOUT + 1,
            False,
            f"the frame at byte 0 has layout {frame.LAYOUT + 1}, this Semel reads up to",
        ),
        (
            snapshot_format.FORMAT + 1,
            True,
            f"the state in a checkpoint has format {snapshot_format.FORMAT + 1}, .* up to",
        ),
    ],
)
def test_a_payload_or_a_state_of_a_newer_format_is_refused(
    first: int, is_checkpointed: bool, sentence: str
) -> None:
    device = MemoryDevice(Random(1))

    async def live() -> None:
        lane = RememberingOn(FileJournal.open(device, SETTINGS))
        lane.start()
        await lane.durable(lane.append(bytes([first]) + bytes(20)))
        if is_checkpointed:
            await lane.journal.close()

    seeded_loop.run(Random(1), live())
    device.kill()
    before = contents_of(device)
    assert bool(names.positions(list(before), names.CHECKPOINT)) == is_checkpointed
    with pytest.raises(NewerFormat, match=sentence):
        FileJournal.open(device, SETTINGS, CONTENTS)
    assert contents_of(device) == before


def test_a_broker_says_so_and_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    with Broker(data=tmp_path):
        pass
    (tmp_path / names.FORMAT).write_text("format 7\nread by Semel 3.0 and newer\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    sentence = r"^semel: the data folder has format 7 \(read by Semel 3.0 and newer\), this Semel"
    with pytest.raises(BrokerDidNotStart, match=sentence):
        Broker(data=tmp_path).start()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
