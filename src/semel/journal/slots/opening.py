"""Taking a lane: its newest checkpoint, the slots behind it, a fence in the first that is free.

What landed behind that one is void from then on: its leader has not confirmed it (rule 16).

Rule 31 is half of it. What a checkpoint covers may be deleted at any time, so that a slot which
seems free may be one that was collected, and a fence in it stands in nobody's way; and where others
have left such a fence, it hides the hole. Whoever wins a fence therefore looks for the newest
checkpoint again.
"""

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from semel.errors import CorruptJournal, SemelError
from semel.journal.slots import checkpoints, keys
from semel.journal.slots.calls import Calls
from semel.journal.slots.checkpoints import Checkpoint
from semel.journal.slots.entries import (
    ENTRY_HEADER_SIZE,
    NONCE_SIZE,
    Head,
    Kind,
    decode,
    encode,
    head_of,
)
from semel.journal.slots.history import Standing, fenced, may_miss_acknowledged
from semel.journal.slots.landing import land
from semel.journal.slots.replay import Replay
from semel.journal.slots.settings import SlotSettings
from semel.journal.slots.table import SlotTable
from semel.types import Position
from semel.world import Randomness


class NotTaken(SemelError):
    """Another has fenced the lane, or has moved on: wait before the next attempt."""


class Boundary(Enum):
    HOLDS = auto()
    REPLAY = auto()
    """From the newer checkpoint: what was read before it may not have been true."""
    GIVE_UP = auto()
    """The fence stands in a slot that was collected."""


def look_again(newest: int, fence: int, began: int) -> Boundary:
    """What the newest checkpoint says, asked for when the fence was won, to one who has replayed
    from that at `began` (rule 31)."""
    if newest > fence:
        return Boundary.GIVE_UP
    return Boundary.REPLAY if newest > began else Boundary.HOLDS


class Loaded(NamedTuple):
    checkpoint: Checkpoint | None
    replay: Replay


class Taken(NamedTuple):
    """A lane that was fenced by us, with all that counts before the fence."""

    checkpoint: Checkpoint | None
    replay: Replay
    fence: int
    """Its slot."""
    standing: Standing
    """Behind it."""
    may_miss_acknowledged: bool
    is_continued: bool
    """The checkpoint, and what was followed before, is known to whoever asked for the lane."""


async def load(calls: Calls, lane: int, settings: SlotSettings) -> Loaded:
    """From the newest checkpoint to the first slot that is free. Raises CorruptJournal."""
    hole: tuple[int, int] | None = None
    while True:
        loaded = begun(lane, await checkpoints.newest(calls, lane))
        replay = loaded.replay
        if await read_on(calls, replay, settings):
            return loaded
        found, hole = hole, (replay.began, replay.slot)
        if found == hole and await checkpoints.boundary(calls, lane) == replay.began:
            # Whoever collects a slot leaves a newer checkpoint before.
            raise CorruptJournal(
                f"{keys.slot(lane, replay.slot)} is gone, and there are slots behind it"
            )


def begun(lane: int, checkpoint: Checkpoint | None) -> Loaded:
    if checkpoint is None:
        return Loaded(None, Replay(lane, 0, Standing(), SlotTable()))
    replay = Replay(lane, checkpoint.slot, checkpoint.standing, checkpoint.table)
    return Loaded(checkpoint, replay)


async def read_on(
    calls: Calls, replay: Replay, settings: SlotSettings, stop: int | None = None
) -> bool:
    """Replays up to a slot, or to the first that is free.

    False if some of it was collected meanwhile, so that a newer checkpoint is there. The list only
    says how many to read at once; what is there is told by reading. Raises CorruptJournal.

    A slot that is free with others behind it was collected, or is under way, or is gone: the newest
    checkpoint tells the first, and what stands behind it the last.
    """
    lane = replay.lane
    behind = keys.slot(lane, replay.slot - 1) if replay.slot else ""
    sizes = keys.sizes(await calls.until_listed(keys.slots(lane), behind))
    last = max(sizes, default=-1)
    unlisted_count = read_size = 1
    while stop is None or replay.slot < stop:
        count = _count_at_once(sizes, replay.slot, settings)
        if replay.slot > last:
            # Whoever leads goes on meanwhile: one by one they would be read for ever.
            fitting_count = max(1, settings.read_bytes_at_once // read_size)
            count = min(unlisted_count, fitting_count, settings.reads_at_once)
            unlisted_count *= 2
        count = count if stop is None else min(count, stop - replay.slot)
        for key, stored in await _read(calls, lane, replay.slot, count):
            if stored is None:
                if stop is not None:
                    return False
                if replay.slot > last:
                    return True
                was_there = await _was_there(calls, replay, last)
                if was_there and await calls.until_got(key) is not None:
                    # It has come in between.
                    break
                if await _is_collected(calls, replay, was_there=was_there):
                    return False
                if was_there:
                    raise CorruptJournal(f"{key} is gone, and was there: slot {last} says so")
                return True
            read_size = len(stored)
            if not await add(calls, replay, key, stored):
                return False
    return True


async def _was_there(calls: Calls, replay: Replay, last: int) -> bool:
    """Whether the writer of the last slot knew more to be durable than ends before the next."""
    key = keys.slot(replay.lane, last)
    head = await calls.until_answered(lambda: calls.get_range(key, 0, ENTRY_HEADER_SIZE))
    return head is not None and head_of(head, key).durable > replay.standing.end


async def _is_collected(calls: Calls, replay: Replay, *, was_there: bool = False) -> bool:
    """Whether the next slot, which was found free, had been written before.

    If a later one says that it was, any newer checkpoint is reason enough to begin anew: what was
    read may not have been true, and so what is known to be durable.
    """
    boundary = await checkpoints.boundary(calls, replay.lane)
    return boundary > replay.slot or (was_there and boundary > replay.began)


def _count_at_once(sizes: Mapping[int, int], first: int, settings: SlotSettings) -> int:
    """Of the slots that were listed; one more than none, to see whether it is free."""
    count = byte_count = 0
    while count < settings.reads_at_once and first + count in sizes:
        byte_count += sizes[first + count]
        if count and byte_count > settings.read_bytes_at_once:
            break
        count += 1
    return max(1, count)


async def add(calls: Calls, replay: Replay, key: str, stored: bytes) -> bool:
    """The next slot; False if a newer checkpoint is there, and this does not fit to what was read
    before it: something was left in a collected slot. Raises CorruptJournal."""
    try:
        replay.add(decode(stored, key))
    except CorruptJournal:
        if await checkpoints.boundary(calls, replay.lane) > replay.began:
            return False
        raise
    return True


async def _read(calls: Calls, lane: int, first: int, count: int) -> list[tuple[str, bytes | None]]:
    names = [keys.slot(lane, slot) for slot in range(first, first + count)]
    return list(zip(names, await asyncio.gather(*map(calls.until_got, names)), strict=True))


async def take(
    calls: Calls,
    lane: int,
    node: int,
    randomness: Randomness,
    settings: SlotSettings,
    followed: Replay | None = None,
    *,
    only_silent: bool = False,
) -> Taken:
    """Fences the lane. Raises NotTaken, CorruptJournal, NewerFormat.

    `followed` is a replay that its owner has taken frames from: only what is new is read. It is
    left to whoever has written that, if the lane is to be taken `only_silent`.
    """
    checkpoint: Checkpoint | None = None
    is_continued = followed is not None
    replay = followed
    seen = None if followed is None else followed.standing
    # Behind a seal nothing counts but a fence, and that stands in the way of ours.
    is_sealed = only_silent and followed is not None and followed.standing.is_sealed
    if replay is None or not (is_sealed or await read_on(calls, replay, settings)):
        checkpoint, replay = await load(calls, lane, settings)
        is_continued = False
    if only_silent and replay.standing != seen:
        raise NotTaken(f"lane {lane}: others have gone on to slot {replay.slot}")
    fence, epoch = await _fence(calls, replay, node, randomness), replay.standing.epoch + 1
    while True:
        newest = await checkpoints.boundary(calls, lane)
        match look_again(newest, fence, replay.began):
            case Boundary.GIVE_UP:
                raise NotTaken(f"lane {lane}: slot {fence} was collected, others are at {newest}")
            case Boundary.HOLDS:
                break
            case Boundary.REPLAY:
                if is_continued:
                    outline = await checkpoints.outline_at(calls, lane, newest)
                    if outline is None:
                        continue
                    if replay.is_confirmed_by(outline.slot, outline.standing):
                        replay.confirm(newest)
                        continue
                is_continued = False
                again = begun(lane, await checkpoints.newest(calls, lane))
                if again.replay.began <= fence and await read_on(
                    calls, again.replay, settings, fence
                ):
                    checkpoint, replay = again
    standing = replay.standing
    if epoch <= standing.epoch:
        raise NotTaken(f"lane {lane}: the fence of epoch {epoch} is behind epoch {standing.epoch}")
    return Taken(
        checkpoint,
        replay,
        fence,
        fenced(standing, epoch),
        may_miss_acknowledged(standing),
        is_continued,
    )


async def _fence(calls: Calls, replay: Replay, node: int, randomness: Randomness) -> int:
    """In the next slot that nothing void stands in, which is returned. Raises NotTaken; what is
    there instead is applied."""
    lane, standing = replay.lane, replay.standing
    epoch = standing.epoch + 1
    nonce = randomness.token_bytes(NONCE_SIZE)
    head = Head(
        Kind.FENCE,
        epoch,
        fenced(standing, epoch).term,
        node,
        nonce,
        Position(standing.end),
        Position(standing.end),
        0,
    )
    while True:
        slot = replay.slot
        foreign = await land(calls, keys.slot(lane, slot), [encode(head)], nonce)
        if foreign is None:
            return slot
        try:
            replay.add(foreign)
        except CorruptJournal:
            if not await _is_collected(calls, replay):
                raise
            raise NotTaken(f"lane {lane}: slot {slot} was collected, others have gone on") from None
        if replay.standing != standing:
            raise NotTaken(
                f"lane {lane}: slot {slot} went to node {foreign.head.node}, "
                f"epoch {foreign.head.epoch}"
            )
