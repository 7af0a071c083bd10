"""The simulated disk promises no more than a real one does."""

import asyncio
from random import Random

from semel.journal.file.memory import MemoryDevice
from support import seeded_loop


def is_there_after_a_power_loss(seed: int) -> bool:
    """A file that was made behind the beginning of a sync of the folder, with another between."""

    async def main() -> bool:
        device = MemoryDevice(Random(seed))
        device.start(asyncio.get_running_loop())
        device.create("before")
        device.submit_sync([], folder=True, on_done=lambda error: None)
        device.sync_folder()
        device.create("behind")
        await seeded_loop.elapse(1)
        device.power_loss()
        assert "before" in device.names()
        return "behind" in device.names()

    return seeded_loop.run(Random(seed), main())


def test_a_sync_of_the_folder_covers_what_was_there_when_it_began() -> None:
    assert {is_there_after_a_power_loss(seed) for seed in range(20)} == {True, False}
