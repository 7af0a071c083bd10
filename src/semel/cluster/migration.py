"""From the folder of one broker to a cluster on a store, and back.

Both copy a lane that nobody leads into a journal that is new. Leader epochs, terms, producers and
open transactions go on where they were: clients see a restart, at another address.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from semel.cluster import format as cluster_format
from semel.cluster.format import ClusterRefused
from semel.cluster.opening import ClusterSettings, opened, stores
from semel.errors import ConfigError, CorruptJournal, JournalFailed
from semel.groups.settings import GroupSettings
from semel.journal.file.check import Folder, lost_bytes
from semel.journal.file.check import check as check_folder
from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.lane_folders import lane_count
from semel.journal.file.salvaging import unused
from semel.journal.file.settings import JournalSettings
from semel.journal.slots.beginning import begin_at
from semel.journal.slots.entries import NOBODY
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken
from semel.journal.slots.settings import SlotSettings
from semel.lane.check import LaneExaminer
from semel.lane.commands import LaneSettings
from semel.lane.contents import CONTENTS
from semel.lane.copying import Copied
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane
from semel.lane.settling import Volumes
from semel.store.opening import open_store
from semel.store.seam import Store
from semel.store.settings import StoreSettings, shown
from semel.types import CATALOGUE_LANE, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from semel.volumes import binding
from semel.volumes.making import MakesNone
from semel.volumes.objects import ObjectVolumes
from semel.volumes.store import DeviceVolumes
from semel.volumes.tiering import Tiering
from semel.world import Clock, Randomness

PARTIAL: Final = ".partial"
LANE_SETTINGS: Final = LaneSettings(GroupSettings())
"""Nothing is decided by these."""

Progress = Callable[[str, int], None]
"""What is being done, and how many bytes of it are."""


class Imported(NamedTuple):
    cluster_id: bytes
    copied: Copied


async def import_folder(
    folder: Path,
    settings: ClusterSettings,
    clock: Clock,
    randomness: Randomness,
    partition_counts: tuple[int, int],
    on_progress: Progress,
    volumes: StoreSettings | None = None,
) -> Imported:
    """Make a cluster of a folder that no broker has, which stays as it is.

    `partition_counts` are those of the offsets and the transactions topic, if there is none yet;
    `volumes` is where old data of the folder lies, if not in itself.
    Raises ConfigError, FolderInUse, ClusterRefused, CorruptJournal, UnfitStore, StoreError and
    OSError.
    """
    if lane_count(folder) > 1:
        raise ConfigError(f"{folder} has several lanes, and a cluster is made of a folder with one")
    _check(folder, volumes, on_progress)
    async with stores(settings) as found, _far(volumes) as far:
        device = FileDevice(folder)
        journal = FileJournal.open(device, JournalSettings(), CONTENTS)
        try:
            old = await _old_data(folder, device, far, randomness)
            lane = Lane(journal, LANE_SETTINGS, clock, randomness, CATALOGUE_LANE, volumes=old)
        except BaseException:
            device.stop()
            raise
        await lane.start(_ignored)
        try:
            await cluster_format.begin_import(found.store, randomness, found.journal)
            target = await _begun(found.joined, lane.view.epoch, randomness, SlotSettings())
            copied = await lane.copy_into(
                target, LANE_SETTINGS, lambda done: on_progress("copied", done)
            )
            await _check_copied(found.joined, target)
            known = lane.view.known_partition_count
            made = await cluster_format.end_import(
                found.store,
                randomness,
                lane.view.cluster_id,
                known(OFFSETS_TOPIC) or partition_counts[0],
                known(TRANSACTIONS_TOPIC) or partition_counts[1],
                found.journal,
            )
        finally:
            await lane.close()
    return Imported(made.cluster_id, copied)


def _check(folder: Path, volumes: StoreSettings | None, on_progress: Progress) -> None:
    """Raises FolderInUse, ConfigError, CorruptJournal: nobody should find out half-way."""
    bound = binding.read(folder)
    if bound is not None and volumes is None:
        raise ConfigError(
            f"old data of {folder} lies in {bound.url}: say --volumes {bound.url}, so that it is "
            "taken over as well"
        )
    if bound is None and volumes is not None:
        raise ConfigError(
            f"all data of {folder} lies in itself, and none in {shown(volumes.url)}: leave "
            "--volumes out"
        )
    with unused(folder) as device:
        examined = Folder(device, LaneExaminer(), lambda done, total: on_progress("checked", done))
        for finding in chain(check_folder(examined), lost_bytes(device)):
            if finding.is_damage:
                raise CorruptJournal(
                    f"{folder} is damaged: {finding.file}: {finding.what}; "
                    f"`semel log check {folder}` tells all of it"
                )


class _Far(NamedTuple):
    """Where old data of a folder lies."""

    store: Store
    url: str


@asynccontextmanager
async def _far(volumes: StoreSettings | None) -> AsyncIterator[_Far | None]:
    """Nothing is asked of it yet."""
    if volumes is None:
        yield None
        return
    store = open_store(volumes, Random())
    try:
        yield _Far(store, volumes.url)
    finally:
        await store.close()


async def _old_data(
    folder: Path, device: FileDevice, far: _Far | None, randomness: Randomness
) -> Volumes:
    """Of a folder that is ours, claimed as by a start: no copy of it removes any meanwhile."""
    if far is None:
        return Volumes(DeviceVolumes(device), MakesNone())
    tiering = Tiering(far.store, far.url, randomness)
    tiered, _ = tiering.volumes(CATALOGUE_LANE, device)
    tiering.claimed(await binding.bind(folder, far.url, far.store, randomness))
    return Volumes(tiered, MakesNone())


async def _begun(
    store: Store, epoch: int, randomness: Randomness, settings: SlotSettings
) -> SlotJournal:
    """A journal whose epochs go on behind those that batches have."""
    await begin_at(store, CATALOGUE_LANE, epoch, NOBODY, randomness, settings)
    return await SlotJournal.open(store, CATALOGUE_LANE, NOBODY, randomness, settings)


async def _check_copied(store: Store, target: SlotJournal) -> None:
    """Open it as a node would, to see that all of it is found."""
    follower = Follower(store, CATALOGUE_LANE)
    await follower.begin()
    has_begun_anew = await follower.look()
    is_whole = follower.end == target.end and follower.is_sealed and follower.checkpoint
    if has_begun_anew or not is_whole or list(follower.replay()):
        raise CorruptJournal("what was copied cannot be read back: the store has lost some of it")


async def _followed_to_the_end(follower: Follower) -> FollowedLane:
    await follower.begin()
    followed = FollowedLane(LANE_SETTINGS, CATALOGUE_LANE, follower)
    slot = -1
    while follower.slot != slot:
        slot = follower.slot
        if await follower.look():
            followed = FollowedLane(LANE_SETTINGS, CATALOGUE_LANE, follower)
        else:
            followed.read_on(follower)
    return followed


async def export_cluster(
    settings: ClusterSettings,
    folder: Path,
    clock: Clock,
    randomness: Randomness,
    on_progress: Progress,
) -> Copied:
    """Make a folder for one broker of a cluster whose nodes have stopped, which stays as it is.

    Raises ClusterRefused, ConfigError, CorruptJournal, StoreError and OSError.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    _check_new(folder, partial)
    async with opened(settings) as (store, cluster):
        follower = Follower(store, CATALOGUE_LANE)
        followed = await _followed_to_the_end(follower)
        cluster_format.check_same(followed.cluster_id, cluster)
        led_by = followed.led_by
        if followed.lanes.count > 1:
            raise ClusterRefused(
                f"this cluster has {followed.lanes.count} lanes: a folder is made only of one that "
                "has one"
            )
        if not follower.is_sealed:
            who = "nobody has led it yet" if led_by is None else f"node {led_by.node_id} leads it"
            raise ClusterRefused(
                f"{who}: a cluster is exported once all its nodes have stopped, the last in order; "
                f"if that one was killed, start a node and stop it"
            )
        try:
            source = await follower.take(NOBODY, randomness, only_silent=True)
        except NotTaken as error:
            raise ClusterRefused(f"a node has begun to lead: {error}") from error
        device = FileDevice(partial)
        lane = Lane(
            source,
            LANE_SETTINGS,
            clock,
            randomness,
            CATALOGUE_LANE,
            volumes=Volumes(_volumes(store, source, randomness, device), MakesNone()),
            followed=followed if source.is_continued else None,
        )
        await lane.start(_ignored)
        try:
            target = FileJournal.open(device, JournalSettings(), CONTENTS)
            copied = await lane.copy_into(
                target, LANE_SETTINGS, lambda done: on_progress("copied", done)
            )
        finally:
            await lane.close()
        if source.failure is not None:
            raise JournalFailed(f"a node has begun to lead meanwhile: {source.failure}")
    _rename(partial, folder)
    return copied


def _volumes(
    store: Store, journal: SlotJournal, randomness: Randomness, device: FileDevice
) -> ObjectVolumes:
    """Those that are there; none is made."""
    assert journal.epoch is not None
    return ObjectVolumes(store, CATALOGUE_LANE, journal.epoch, randomness, device, journal.blocks)


def _check_new(folder: Path, partial: Path) -> None:
    for each in (folder, partial):
        if each.exists() and (each == partial or any(each.iterdir())):
            raise ConfigError(f"{each} is there already: delete it, or name another folder")


def _rename(partial: Path, folder: Path) -> None:
    """Move the finished folder to its name, where an empty one may be."""
    partial.rename(folder)
    descriptor = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ignored(error: BaseException) -> None:
    """A failure of the source: the copy fails of it, and tells."""
