"""A lane some of whose objects cannot be read: what is left of it, and how it is led again.

All that is behind the first slot which cannot be read is lost, as frames follow from each other.
Whoever gives it up fences the lane behind the last slot, and leaves a checkpoint there, with which
all begin who read the lane.
"""

from typing import NamedTuple

from semel.errors import CorruptJournal
from semel.journal.slots import checkpoints, keys
from semel.journal.slots.calls import Calls
from semel.journal.slots.checkpoints import Checkpoint
from semel.journal.slots.entries import NONCE_SIZE, Head, Kind, decode, encode
from semel.journal.slots.history import NO_EPOCH, fenced
from semel.journal.slots.landing import land
from semel.journal.slots.opening import NotTaken, Taken, begun
from semel.journal.slots.replay import Replay
from semel.types import Position
from semel.world import Randomness


class Left(NamedTuple):
    """What is read of a lane."""

    checkpoint: Checkpoint | None
    replay: Replay
    last: int
    """The newest slot there is; -1 if there is none."""
    damaged_checkpoints: tuple[str, ...]
    """Why newer ones cannot be read."""


async def begin(calls: Calls, lane: int) -> Left:
    """At the newest checkpoint that can be read. Raises NewerFormat."""
    damaged: list[str] = []
    checkpoint: Checkpoint | None = None
    for slot in reversed(keys.numbers(await calls.until_listed(keys.checkpoints(lane)))):
        try:
            checkpoint = await checkpoints.at(calls, lane, slot)
        except CorruptJournal as error:
            damaged.append(str(error))
        else:
            break
    slots = keys.numbers(await calls.until_listed(keys.slots(lane)))
    last = slots[-1] if slots else -1
    return Left(checkpoint, begun(lane, checkpoint).replay, last, tuple(damaged))


async def read_next(calls: Calls, left: Left) -> None:
    """The next slot, which is not behind the last. Raises CorruptJournal, NewerFormat."""
    replay = left.replay
    key = keys.slot(replay.lane, replay.slot)
    stored = await calls.until_got(key)
    if stored is None:
        raise CorruptJournal(f"{key} is gone")
    replay.add(decode(stored, key))


async def fence_behind(
    calls: Calls, left: Left, lane: int, node: int, randomness: Randomness
) -> Taken:
    """The lane is ours, with as much as was read of it. Raises NotTaken."""
    standing = left.replay.standing
    epoch = standing.epoch
    for slot in range(left.replay.slot, left.last + 1):
        stored = await calls.until_got(keys.slot(lane, slot))
        try:
            if stored is not None:
                epoch = max(epoch, decode(stored, keys.slot(lane, slot)).head.epoch)
        except CorruptJournal:
            # Its epoch is no higher than that of what stands behind it, or is the last.
            epoch += 1
    assert epoch != NO_EPOCH, "there is nothing to go on from"
    standing = fenced(standing._replace(is_sealed=False), epoch + 1)
    fence, end = left.last + 1, Position(standing.end)
    nonce = randomness.token_bytes(NONCE_SIZE)
    head = Head(Kind.FENCE, standing.epoch, standing.term, node, nonce, end, end, 0)
    foreign = await land(calls, keys.slot(lane, fence), [encode(head)], nonce)
    if foreign is not None:
        raise NotTaken(f"lane {lane}: slot {fence} went to node {foreign.head.node} meanwhile")
    return Taken(left.checkpoint, left.replay, fence, standing, True, is_continued=False)
