"""Random lives of a journal on the simulated disk, and the oracle that judges them.

The oracle holds lists of payloads only. What was reported durable is replayed; what is replayed is
a prefix of what was appended; after a kill everything reported written is there; and each batch is
read back as it was appended.
"""

import contextlib
from random import Random

from semel.errors import JournalFull
from semel.journal.file.memory import Killed, MemoryDevice
from support import seeded_loop
from support.journal_world import Remembering, payload_of, stored_batches

LIFE_COUNT = 12


class History:
    """What may and what must be found at the next open."""

    def __init__(self) -> None:
        self.appended: list[bytes] = []
        self.written_count = 0
        self.durable_count = 0
        self.in_doubt = False
        """Acknowledged bytes may be missing, and no durable frame says so."""

    def check(self, lane: Remembering, *, power_was_lost: bool) -> None:
        replayed = lane.replayed
        assert replayed == self.appended[: len(replayed)], "a hole, a ghost or altered bytes"
        assert len(replayed) >= self.durable_count, "a durable frame is gone"
        if not power_was_lost:
            assert len(replayed) >= self.written_count, "a kill took a written frame"
        self.in_doubt |= power_was_lost
        # Without a frame there is nothing to miss.
        if replayed or not self.in_doubt:
            doubts = lane.journal.may_miss_acknowledged
            assert doubts == self.in_doubt, "an I/O error or a power loss was forgotten or invented"
        batches = stored_batches(lane.journal, 0, 0, len(replayed))
        assert [bytes(batch) for batch in batches] == replayed, "a batch is not what was appended"
        # Every open makes durable what it found.
        self.appended = list(replayed)
        self.written_count = self.durable_count = len(replayed)

    def note_written(self, count: int) -> None:
        self.written_count = max(self.written_count, count)

    def note_durable(self, count: int) -> None:
        self.durable_count = max(self.durable_count, count)


async def live(lane: Remembering, device: MemoryDevice, history: History, rng: Random) -> None:
    """Appends and waits until chance ends it; the caller then crashes the device."""
    lane.start()
    if lane.journal.may_miss_acknowledged and rng.random() < 0.9:
        # What the lane concludes from the doubt; until it is durable, the doubt stays.
        await _append(lane, history, rng, wait=rng.random() < 0.9)
    for _ in range(rng.choice((0, 3, 30, 120))):
        _maybe_break(device, rng)
        if lane.failures:
            break
        await _append(lane, history, rng, wait=rng.random() < 0.05)
        if rng.random() < 0.4:
            await seeded_loop.elapse(rng.choice((0, 0.0005, 0.002, 0.02)))
    if rng.random() < 0.2:
        await lane.journal.close()
        if not lane.failures:
            history.note_durable(len(history.appended))
    device.is_full = device.fails_next_sync = device.fails_next_write = False
    history.in_doubt = bool(lane.failures) or (history.in_doubt and not lane.durable_calls)


async def _append(lane: Remembering, history: History, rng: Random, *, wait: bool) -> None:
    payload = payload_of(rng, rng.randint(0, 10**6))
    try:
        position = lane.append(payload, kept_size=0 if rng.random() < 0.1 else None)
    except JournalFull:
        return
    history.appended.append(payload)
    count = len(history.appended)
    lane.journal.when_written(position, lambda: history.note_written(count))
    if rng.random() < 0.3:
        lane.journal.when_durable(position, lambda: history.note_durable(count))
    if wait and await lane.durable(position):
        history.note_durable(count)


def _maybe_break(device: MemoryDevice, rng: Random) -> None:
    chance = rng.random()
    if chance < 0.003:
        device.fails_next_sync = True
    elif chance < 0.005:
        device.fails_next_write = True
    elif chance < 0.03:
        device.is_full = not device.is_full


def open_again(device: MemoryDevice, rng: Random) -> tuple[Remembering, bool]:
    """Sometimes the process dies while it recovers, and the power may go too."""
    power_was_lost = False
    while True:
        if rng.random() < 0.3:
            device.calls_left = rng.randint(0, 25)
        with contextlib.suppress(Killed):
            lane = Remembering(device)
            device.calls_left = None
            return lane, power_was_lost
        if rng.random() < 0.5:
            device.power_loss()
            power_was_lost = True
        else:
            device.kill()


def crash_again_and_again(seed: int) -> None:
    rng = Random(seed)
    device = MemoryDevice(rng)
    history = History()
    power_was_lost = False
    for _ in range(LIFE_COUNT):
        lane, power_was_lost_again = open_again(device, rng)
        history.check(lane, power_was_lost=power_was_lost or power_was_lost_again)
        seeded_loop.run(rng, live(lane, device, history, rng))
        power_was_lost = rng.random() < 0.6
        if power_was_lost:
            device.power_loss()
        else:
            device.kill()
