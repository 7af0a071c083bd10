"""Short lives of a journal on the simulated disk, for tests that then look at its files."""

from random import Random

from semel.journal.file.memory import MemoryDevice
from semel.journal.frames import HEADER_SIZE
from support import seeded_loop
from support.journal_world import Remembering

PAYLOAD = b"p" * 100
FRAME_SIZE = HEADER_SIZE + len(PAYLOAD)


def device_of(seed: int = 1) -> MemoryDevice:
    return MemoryDevice(Random(seed))


def live(device: MemoryDevice, count: int, *, durable: bool, close: bool = False) -> Remembering:
    """One process that appends `count` frames, and is killed once they are written or durable."""

    async def main() -> Remembering:
        lane = Remembering(device)
        lane.start()
        for _ in range(count):
            position = lane.append(PAYLOAD)
            await (lane.durable(position) if durable else lane.written(position))
        if close:
            await lane.journal.close()
        return lane

    lane = seeded_loop.run(Random(2), main())
    device.kill()
    return lane


def reopen(device: MemoryDevice) -> Remembering:
    lane = Remembering(device)
    device.kill()
    return lane
