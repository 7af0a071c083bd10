"""`semel cluster repair`: a lane some of whose objects cannot be read goes on without them.

It says what cannot be read and what would be lost, and gives that up only if it is told to. Then
the lane is fenced behind its last slot, a checkpoint there holds what was read, and nodes take it
as after a leader that was killed: open transactions are aborted in it.
"""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from semel.cluster.channel import Channel, Connect, NodeAway, connect
from semel.cluster.format import ClusterFormat, ClusterRefused, check_same
from semel.cluster.messages import AnyAnswer, Describe, Described
from semel.cluster.outside import CONNECTING_S, Outside
from semel.cluster.session import WrongCode
from semel.errors import CorruptJournal
from semel.groups.settings import GroupSettings
from semel.journal.file.disk import FileDevice
from semel.journal.frames import HEADER_SIZE
from semel.journal.index import BatchIndex
from semel.journal.seam import Journal
from semel.journal.slots import checkpoints, damage
from semel.journal.slots.calls import Calls
from semel.journal.slots.damage import Left
from semel.journal.slots.entries import NOBODY
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken
from semel.journal.slots.settings import SlotSettings
from semel.journal.slots.stretches import Stretches
from semel.lane.commands import LaneSettings
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane
from semel.lane.leader import LedBy
from semel.lane.settling import Volumes
from semel.store.seam import Store
from semel.types import CATALOGUE_LANE, Position
from semel.volumes.making import MakesNone
from semel.volumes.objects import ObjectVolumes
from semel.world import Clock, Randomness

SETTINGS: Final = LaneSettings(GroupSettings())
"""Nothing is decided by these but what is aborted."""


class Found(NamedTuple):
    """What is wrong with a lane."""

    lane: int
    reasons: tuple[str, ...]
    """What cannot be read; nothing if all can."""
    kept: int
    """Slots before this one are kept."""
    last: int
    """The newest slot."""
    open_transactions: int
    """As of the last slot that is kept."""
    led_by: LedBy | None
    """Who has led it last, as far as that can be read."""
    lane_count: int

    @property
    def lost(self) -> int:
        """How many slots are given up."""
        return self.last + 1 - self.kept


class _Source:
    """What could be read of a lane, in the form from which its state is made."""

    caught_up_s = None

    def __init__(self, left: Left, settings: SlotSettings) -> None:
        checkpoint = left.checkpoint
        self.checkpoint = None if checkpoint is None else b"".join(checkpoint.state)
        self.stretches = Stretches.of(checkpoint, settings.stretch_bytes)
        self._left = left

    @property
    def index(self) -> BatchIndex:
        return self.stretches.index

    def replay(self) -> Iterator[tuple[Position, memoryview]]:
        for position, payload in self._left.replay.take():
            self.stretches.seal_if_full(position - HEADER_SIZE)
            yield position, payload


class _Read(NamedTuple):
    left: Left
    source: _Source
    followed: FollowedLane


async def _read(
    calls: Calls, lane: int, settings: SlotSettings, stop: int | None
) -> tuple[_Read, str | None]:
    """Up to a slot, or to what cannot be read: why. Raises NewerFormat, ClusterRefused."""
    left = await damage.begin(calls, lane)
    source = _Source(left, settings)
    try:
        followed = FollowedLane(SETTINGS, lane, source)
    except CorruptJournal as error:
        raise ClusterRefused(
            f"the checkpoint of lane {lane} cannot be understood: {error}"
        ) from error
    read = _Read(left, source, followed)
    behind = left.last + 1 if stop is None else stop
    while left.replay.slot < behind:
        try:
            await damage.read_next(calls, left)
            followed.read_on(source)
        except CorruptJournal as error:
            return read, str(error)
    return read, None


async def examine(store: Store, cluster: ClusterFormat, lane: int) -> Found:
    """Raises NewerFormat, ClusterRefused, StoreAway, StoreRefused."""
    settings = SlotSettings()
    calls = Calls(store, settings)
    read, reason = await _read(calls, lane, settings, None)
    left, followed = read.left, read.followed
    reasons = [*left.damaged_checkpoints, *([] if reason is None else [reason])]
    kept = left.last + 1
    if reason is not None:
        # A slot may be whole, and what is in it may not be understood.
        kept = left.replay.slot - (1 if left.replay.slot and _is_added(left, reason) else 0)
    check_same(followed.cluster_id, cluster)
    return Found(
        lane,
        tuple(reasons),
        kept,
        left.last,
        len(followed.state.transactions.open()),
        followed.led_by,
        followed.lanes.count,
    )


def _is_added(left: Left, reason: str) -> bool:
    """The slot could be read, and its frames could not be applied."""
    return reason.startswith("frame at byte")


async def mend(
    store: Store,
    cluster: ClusterFormat,
    found: Found,
    folder: Path,
    clock: Clock,
    randomness: Randomness,
    connect: Connect = connect,
) -> None:
    """Give up what was found; the folder is for what need not last. Raises ClusterRefused, also if
    the lane has gone on meanwhile."""
    await _check_unled(store, found, cluster, randomness, connect)
    settings, lane = SlotSettings(), found.lane
    calls = Calls(store, settings)
    read, reason = await _read(calls, lane, settings, found.kept)
    if reason is not None or read.left.last != found.last:
        raise ClusterRefused(f"lane {lane} is not as it was when it was looked at: look again")
    if not read.followed.cluster_id:
        raise ClusterRefused(
            f"nothing of lane {lane} can be kept: put back a copy of the store as it was before"
        )
    try:
        taken = await damage.fence_behind(calls, read.left, lane, NOBODY, randomness)
    except NotTaken as error:
        raise ClusterRefused(str(error)) from error
    journal = SlotJournal(
        calls,
        lane,
        NOBODY,
        randomness,
        settings,
        taken._replace(is_continued=True),
        read.source.stretches,
    )
    await _lead_and_leave(
        store, journal, read.followed, found, FileDevice(folder), clock, randomness
    )
    newest = await checkpoints.boundary(calls, lane)
    if newest <= taken.fence:
        raise ClusterRefused(f"lane {lane} has no new checkpoint: repair it again")


async def _lead_and_leave(
    store: Store,
    journal: SlotJournal,
    followed: FollowedLane,
    found: Found,
    device: FileDevice,
    clock: Clock,
    randomness: Randomness,
) -> None:
    """The term rises, what is open is aborted, and a checkpoint has all of it."""
    assert journal.epoch is not None
    store_volumes = ObjectVolumes(
        store, found.lane, journal.epoch, randomness, device, journal.blocks
    )
    shared: Journal = journal
    lane = Lane(
        shared,
        SETTINGS,
        clock,
        randomness,
        found.lane,
        found.lane_count,
        volumes=Volumes(store_volumes, MakesNone()),
        followed=followed,
    )
    failed: list[BaseException] = []
    try:
        await lane.start(failed.append)
    finally:
        await lane.close()
    if journal.failure is not None or failed:
        raise ClusterRefused(f"lane {found.lane} was fenced by a node: {journal.failure}")


async def _check_unled(
    store: Store, found: Found, cluster: ClusterFormat, randomness: Randomness, connect: Connect
) -> None:
    """Who leads it has in memory what cannot be read, and its next checkpoint will hold it. Raises
    ClusterRefused."""
    led_by = found.led_by
    if led_by is None:
        return
    told: AnyAnswer | None = None
    if found.lane == CATALOGUE_LANE:
        told = await _answer_of(led_by, cluster, randomness, connect)
    else:
        # Without lane 0 nobody can tell; who leads the lane is fenced then.
        with contextlib.suppress(ClusterRefused, CorruptJournal):
            outside = await Outside.of(store, cluster, randomness, connect)
            told = await outside.ask_leader(Describe(), CONNECTING_S)
    if not isinstance(told, Described):
        return
    led = [CATALOGUE_LANE, *(each.lane for each in told.lanes if each.node_id is not None)]
    if found.lane in led:
        raise ClusterRefused(
            f"node {led_by.node_id} leads lane {found.lane}, and has in memory what cannot be "
            f"read: leave it until it has made a checkpoint, or stop it in order"
        )


_NOT_UNDERSTOOD: Final = (EOFError, ValueError, WrongCode, ssl.SSLError, ConnectionResetError)
"""What becomes of a call where somebody listens."""


async def _answer_of(
    led_by: LedBy, cluster: ClusterFormat, randomness: Randomness, connect: Connect
) -> AnyAnswer | None:
    try:
        channel = await Channel.open(
            connect, led_by.host, led_by.port, cluster.rpc_key, randomness, CONNECTING_S
        )
        try:
            return await channel.ask(Describe(), CONNECTING_S)
        finally:
            channel.close()
    except NodeAway as error:
        if not isinstance(error.__cause__, _NOT_UNDERSTOOD):
            return None
        # Whoever has connected and is not understood may be that node, which speaks TLS.
        raise ClusterRefused(
            f"node {led_by.node_id} may lead this lane, and what is found there is not understood: "
            f"{error}. If nodes find each other at a listener with TLS, say so by "
            "`-X security.protocol=SSL` and what else clients need, or stop the node"
        ) from None
