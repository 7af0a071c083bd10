"""Gives back the room of what is gone: of the journal's oldest segments, and of volumes.

What is dead as a whole is removed. Of the rest what lives on is settled in a volume, so that the
segments it lay in can go. Law: nothing is removed before the durable state says that it is not
needed: it is deleted there, or lies in a volume that is there to stay.
"""

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from semel.errors import CorruptJournal, JournalFull
from semel.journal.names import TEMPORARY, volume_base
from semel.journal.seam import Journal, Sealed
from semel.lane import facts
from semel.lane.commands import Claim, Decided, Environment, SettlingSettings
from semel.lane.frame import Frame
from semel.lane.state import LaneState
from semel.lane.view import PartitionView
from semel.types import Position, TopicPartition
from semel.volumes.making import BYTES_PER_S_MIN, NICENESS, MakesNone, VolumeMaker
from semel.volumes.plans import (
    Compacted,
    Compaction,
    CompactionPlan,
    Made,
    MeasuringPlan,
    SettlingPlan,
    SourceSize,
    UnreadableBatch,
)
from semel.volumes.store import NoVolumes, VolumeStore
from semel.world import Moment, Randomness

if TYPE_CHECKING:
    from semel.lane.lane import Lane

PARTITIONS_AT_ONCE: Final = 64
"""Looked at before others have their turn."""

CHECKPOINTS_MAX: Final = 3
"""That are taken in one round so that segments can go; two are kept."""

SOURCES_MAX: Final = 64
MEASURED_MAX: Final = 32
"""Volumes that are looked at in one round, those not looked at for longest."""

LITTLE: Final = 0.4
"""The part of old segments that lives, below which it is copied so that they can go at once. The
more it is, the sooner room comes back, and the more is written for that."""

MOST: Final = 0.75
"""The part of old segments that lives, from which on they are left if they will go as a whole, or
if somebody waits for the room of what was deleted by hand: below it no more than three bytes are
written for each that is given back."""

HALF: Final = 0.5
"""The part of a volume that lives, below which the rest is copied."""

WAITED_SHARE: Final = 8
"""The part of a journal file that has to be dead, at least, if somebody waits for the room: to copy
what lives beside less costs a volume and a checkpoint for little."""

PILE_MAX: Final = 16
"""Volumes that could be made of old segments, from which on they do not wait for compaction."""

SMALL_MAX: Final = 16
"""Small volumes side by side; as many become one however small that is."""

Warn = Callable[[str], None]
OnDamage = Callable[[TopicPartition, Exception], None]
AnyPlan = TypeVar("AnyPlan", SettlingPlan, CompactionPlan)


class Volumes(NamedTuple):
    """Where a lane keeps its volumes, and who makes them."""

    store: VolumeStore
    maker: VolumeMaker


NO_VOLUMES: Final = Volumes(NoVolumes(), MakesNone())
"""For journals whose old data can lie nowhere else."""


class Settle(NamedTuple):
    """Volumes take the place of others, or of the journal before `end`."""

    added: tuple[int, ...]
    replaced: tuple[int, ...]
    end: Position
    names: tuple[str, ...] = ()
    """Of those added, if numbers are not enough to find them."""

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        frame.add_fact(facts.Settled(self.added, self.replaced, self.end, self.names))
        return Decided(None, frame, Claim.ENDING)


class AdoptCompacted(NamedTuple):
    """What compaction has left of partitions lies in a volume: number, end and bytes of each."""

    volume: int
    parts: tuple[tuple[int, int, int], ...]
    name: str = ""

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        # Some may have been deleted meanwhile.
        parts = tuple(part for part in self.parts if _is_needed(part, state))
        if parts:
            frame.add_fact(facts.Compacted(self.volume, parts, self.name))
        return Decided(None, frame, Claim.ENDING)


async def _never(end: Position) -> bool:
    return False


def _size(sealed: Sequence[Sealed]) -> int:
    return sealed[-1].end - sealed[0].base if sealed else 0


def _is_needed(part: tuple[int, int, int], state: LaneState) -> bool:
    number, end, _ = part
    partition = state.partitions.get(number)
    return partition is not None and partition.log_start_offset < end


class Settling:
    def __init__(
        self,
        lane: "Lane",
        state: LaneState,
        journal: Journal,
        volumes: Volumes,
        randomness: Randomness,
        settings: SettlingSettings,
    ) -> None:
        self._lane = lane
        self._state = state
        self._journal = journal
        self._store, self._maker = volumes
        self._randomness = randomness
        self._settings = settings
        self._sources_max = SOURCES_MAX
        """Fewer where the disk had no room for a volume of more."""
        self._measured: dict[int, int] = {}
        """Rounds, by the volume that was looked at in them."""
        self._round = 0
        self._is_waited_for = False
        """Something was deleted by hand, and the segments it may lie in are still there."""
        self._waited_for: set[int] = set()
        """Volumes that were not looked at since something was deleted by hand."""
        self._waiting_bytes = 0
        """Of segments that were to be settled when that was last looked at in this round."""
        self._looked_ms = lane.view.now_ms()
        self._looked_byte_count = journal.bytes_appended
        self._there: dict[int, int] = {}
        """Bytes of the volumes that are kept, or were before they were replaced."""
        self._names: dict[int, str] = {}
        """Of those that were created and are not adopted yet."""
        self.volumes_made = 0
        self.bytes_settled = 0
        """Written to volumes, without what compaction has left."""
        self.bytes_removed = 0
        """Of segments and volumes."""
        self.first_positions: dict[TopicPartition, int] = {}
        """Where the first batches that are shown lie in the journal, if not in volumes alone."""
        self.will_die: Callable[[Position], Awaitable[bool]] = _never
        """Whether all that lives in the journal before a position will go at about one time."""
        self.on_damage: OnDamage = lambda partition, damage: None
        """Hears of each partition of which something cannot be read, again and again."""
        self._has_failed = False
        """Since something was settled the last time."""
        self._damage_told: set[str] = set()
        """What concerns more than one partition, and was said."""

    async def start(self) -> None:
        """Raises CorruptJournal if a volume is missing. Removes those that nothing names."""
        named = self._state.named_volumes()
        names = self._state.volume_names
        self._there = self._store.open({number: names.get(number, "") for number in named})
        self._waited_for = set(self._state.volumes)
        await self._delete(self._there.keys() - named)

    @property
    def volume_bytes(self) -> int:
        # Read by another thread as well, while volumes come and go.
        return sum(list(self._there.values()))

    @property
    def volume_count(self) -> int:
        return len(self._there)

    async def _sweep(self) -> None:
        """Remove the volumes that nothing names."""
        orphans = self._there.keys() - self._state.named_volumes()
        if orphans:
            # What they were needed for may only just have been deleted.
            await self._lane.until_durable()
            if self._lane.is_leading:
                await self._delete(orphans)

    async def _delete(self, volumes: set[int]) -> None:
        if volumes:
            await self._store.delete(volumes)
            for number in volumes:
                self.bytes_removed += self._there.pop(number)

    def deleted_by_hand(self) -> None:
        """Who deletes by hand looks for the room, so that more may be written for it than for that
        of what has grown old: of that more will go soon."""
        self._is_waited_for = True
        self._waited_for = set(self._state.volumes)

    @property
    def is_piled_up(self) -> bool:
        """More waits than should until compaction is done."""
        sealed = self._journal.sealed().behind(self._state.settled_end)
        return _size(sealed) >= PILE_MAX * self._settings.volume_bytes

    async def give_back(self) -> None:
        """What nothing lives in goes, as far as that takes little."""
        # The next round tells of it.
        with suppress(JournalFull, CorruptJournal, OSError):
            await self._sweep()
            await self._release(self._settings.volume_bytes)

    async def round(self, warn: Warn, end: int | None = None) -> None:
        """All that there is to be done now; in the journal before `end`, if that is given. A
        failure loses nothing: it is tried again."""
        self._round += 1
        self._keep_pace()
        try:
            self._there |= await self._store.tidy()
            await self._sweep()
            await self._release()
            # What comes meanwhile is left to the next round: under load there is always more, and
            # volumes would never be renewed.
            end = self.sealed_end() if end is None else end
            try:
                while (
                    self._lane.is_leading
                    and self._state.settled_end < end
                    and await self._settle(end)
                ):
                    await self._release()
            except CorruptJournal as damage:
                # Fewer at a time come to what is before it. Volumes have nothing to do with it.
                self._sources_max = max(1, self._sources_max // 2)
                self._tell(damage, warn)
            await self._renew_volumes(warn)
        except JournalFull:
            # What was deleted needs no room to be removed; the rest is done when there is some.
            return
        except CorruptJournal as damage:
            self._tell(damage, warn)
        except OSError as error:
            self._sources_max = max(1, self._sources_max // 2)
            # Once: a full disk is tried again every few seconds.
            if not self._has_failed:
                self._has_failed = True
                warn(f"old data is not settled, which is tried again: {error}")

    def _tell(self, damage: CorruptJournal, warn: Warn) -> None:
        """Once: it will be met in each round."""
        if isinstance(damage, UnreadableBatch):
            self._told_of_one(damage.number, damage)
        if str(damage) not in self._damage_told:
            self._damage_told.add(str(damage))
            warn(
                "old data is not settled, and gives no room back, as some of it cannot be read; "
                f"it is tried again until it is read or deleted: {damage}"
            )

    def _told_of(self, made: Made) -> None:
        for each in made.damaged:
            self._told_of_one(each.number, CorruptJournal(each.reason))

    def _told_of_one(self, number: int, damage: CorruptJournal) -> None:
        partition = self._state.partitions.get(number)
        if partition is not None:
            self.on_damage(partition.topic_partition, damage)

    def _keep_pace(self) -> None:
        """More comes in than is settled, unless that is faster."""
        now_ms, byte_count = self._lane.view.now_ms(), self._journal.bytes_appended
        passed_ms = now_ms - self._looked_ms
        if passed_ms > 0:
            intake = (byte_count - self._looked_byte_count) * 1000 // passed_ms
            self._maker.bytes_per_s = max(BYTES_PER_S_MIN, 2 * intake)
        self._looked_ms, self._looked_byte_count = now_ms, byte_count
        self._waiting_bytes = self._bytes_to_settle()
        if self._waiting_bytes < 2 * self._settings.journal_bytes_min:
            self._maker.niceness = NICENESS

    def _bytes_to_settle(self) -> int:
        return _size(self._journal.sealed().behind(self._state.settled_end))

    def _hurry_if_behind(self) -> None:
        """Where more waits than before though it was worked at, others leave too little of the
        machine: the folder would grow until they rest."""
        before, self._waiting_bytes = self._waiting_bytes, self._bytes_to_settle()
        is_much = self._waiting_bytes >= 2 * self._settings.journal_bytes_min
        is_behind = is_much and self._waiting_bytes > before
        if is_behind or self._lane.duties.is_short_of_room:
            self._maker.niceness = 0

    # Segments

    async def _release(self, waiting_min: int = 0) -> None:
        """Let the journal forget the segments before the first batch that is still shown. If there
        are fewer bytes of them than this, those stay that a checkpoint needs: it would have to be
        taken for little."""
        position = self._journal.end
        self.first_positions = {}
        for number, partition in enumerate(self._lane.view.partitions()):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if partition.log_start_offset < partition.log_end_offset:
                found = await self._position_in_journal(partition)
                if found is not None:
                    self.first_positions[partition.topic_partition] = found
                    position = min(position, Position(found))
        # What was judged gone may only just have been deleted.
        await self._lane.until_durable()
        for _ in range(CHECKPOINTS_MAX):
            if not self._lane.is_leading:
                return
            before = self._journal.sealed()
            is_done = self._journal.release_before(position)
            left = self._journal.sealed()
            self.bytes_removed += _size(before) - _size(left)
            if is_done or (left and position - left[0].base < waiting_min):
                return
            # Older ones need what is to go; each new one lies behind something new.
            self._journal.make_room()
            self._lane.append_nothing()
            await self._journal.checkpoint_now()

    async def _position_in_journal(self, partition: PartitionView) -> int | None:
        """Of the first batch that is shown; the first of all if that cannot be told."""
        try:
            return await self._lane.log.position_in_journal(partition)
        except (CorruptJournal, OSError) as damage:
            self.on_damage(partition.topic_partition, damage)
            return self._state.settled_end

    async def _settle(self, end: int) -> bool:
        """The oldest segments, if that is worth it; whether there may be more to do."""
        chosen = await self._chosen(end)
        if not chosen:
            return False
        self._hurry_if_behind()
        await self._replace([each.base for each in chosen], (), Position(chosen[-1].end))
        self._sources_max = min(SOURCES_MAX, 2 * self._sources_max)
        self._has_failed = False
        return True

    async def _chosen(self, before: int) -> Sequence[Sealed]:
        """Those in which little lives, or if there are many, unless they go by themselves."""
        settled_end = self._state.settled_end
        sealed = self._journal.sealed().behind(settled_end)
        oldest = [each for each in sealed[: self._sources_max] if each.end <= before]
        while len(oldest) > 1 and _size(oldest) > self._settings.volume_bytes:
            oldest = oldest[:-1]
        some = oldest
        largest = max((each.end - each.base for each in oldest), default=0)
        while some:
            live_bytes = await self._live_bytes(some[-1].end)
            if live_bytes < LITTLE * _size(some):
                return some
            dead_bytes = _size(some) - live_bytes
            gives_much = WAITED_SHARE * dead_bytes >= largest and live_bytes < MOST * _size(some)
            # Who deletes and starts anew waits for the room as well.
            if gives_much and (self._is_waited_for or self._round == 1):
                self._is_waited_for = False
                return some
            some = some[: len(some) // 2]
        is_much = _size(sealed) >= self._settings.journal_bytes_min or len(sealed) >= SOURCES_MAX
        if not (oldest and is_much) or await self._goes_by_itself(oldest):
            return []
        return oldest

    async def _goes_by_itself(self, sealed: Sequence[Sealed]) -> bool:
        """Where much of it is dead, room would wait for the rest to go."""
        if not self._settings.leaves_what_dies:
            return False
        end = Position(sealed[-1].end)
        return await self.will_die(end) and await self._live_bytes(end) >= MOST * _size(sealed)

    async def _live_bytes(self, end: int) -> int:
        """Of batches in the journal before this position."""
        view, log = self._lane.view, self._lane.log
        live_bytes = 0
        for count, (partition, position) in enumerate(self.first_positions.items(), 1):
            if count % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if position < end and view.hosts_partition(*partition):
                try:
                    live_bytes += await log.bytes_in_journal(view.partition(*partition), end)
                except (CorruptJournal, OSError) as damage:
                    # It may be all.
                    self.on_damage(partition, damage)
                    return end
        return live_bytes

    # Volumes

    async def _renew_volumes(self, warn: Warn) -> None:
        """Remove those in which nothing lives, copy what lives of those with little of it."""
        volumes = self._state.volumes
        oldest_first = sorted(volumes, key=lambda number: self._measured.get(number, 0))
        looked_at = set(oldest_first[:MEASURED_MAX])
        if not looked_at:
            return
        chosen = [number for number in volumes if number in looked_at]
        numbers, starts = await self._kept()
        plan = MeasuringPlan(tuple(map(volume_base, chosen)), numbers, starts)
        extents = dict(zip(chosen, await self._maker.measure(plan), strict=True))
        waited_for = self._waited_for & extents.keys()
        self._waited_for -= waited_for
        self._measured = {
            number: self._round if number in extents else self._measured.get(number, 0)
            for number in volumes
        }
        for extent in extents.values():
            if extent.damage is not None:
                self._tell(CorruptJournal(extent.damage), warn)
        for replaced, live_bytes in self._renewable(volumes.copy(), extents, waited_for):
            if not self._lane.is_leading:
                return
            try:
                await self._renew(replaced, live_bytes)
            except CorruptJournal as damage:
                # They stay as they are, and others are renewed.
                self._tell(damage, warn)

    async def _renew(self, replaced: tuple[int, ...], live_bytes: int) -> None:
        if live_bytes:
            bases = [volume_base(number) for number in replaced]
            await self._replace(bases, replaced, self._state.settled_end)
        else:
            await self._adopt((), replaced, self._state.settled_end)

    def _renewable(
        self, volumes: Sequence[int], extents: dict[int, SourceSize], waited_for: Set[int]
    ) -> list[tuple[tuple[int, ...], int]]:
        """Neighbours that are to become one volume, or none, and the bytes that live in them."""
        small = self._settings.volume_bytes // self._settings.small_share

        def limit(number: int) -> float:
            dead_bytes = extents[number].all_bytes - extents[number].live_bytes
            is_much = dead_bytes >= small
            return MOST if is_much and number in waited_for else HALF

        def kind(number: int) -> str:
            extent = extents.get(number)
            if extent is None or extent.damage is not None:
                return "left"
            if not extent.live_bytes:
                return "dead"
            is_little = extent.live_bytes < limit(number) * extent.all_bytes
            return "little" if is_little or extent.live_bytes < small else "left"

        found: list[tuple[tuple[int, ...], int]] = []
        for what, group in groupby(volumes, kind):
            if what == "dead":
                found.append((tuple(group), 0))
            elif what == "little":
                found += self._gathered(list(group), extents, limit)
        return found

    def _gathered(
        self,
        neighbours: Sequence[int],
        extents: dict[int, SourceSize],
        limit: Callable[[int], float],
    ) -> list[tuple[tuple[int, ...], int]]:
        found = []
        some: list[int] = []
        live_bytes = 0
        for number in neighbours:
            if some and live_bytes + extents[number].live_bytes > self._settings.volume_bytes:
                found.append((tuple(some), live_bytes))
                some, live_bytes = [], 0
            some.append(number)
            live_bytes += extents[number].live_bytes
        found.append((tuple(some), live_bytes))
        # What is only small would be made anew in each round, with the next that comes.
        joined = self._settings.volume_bytes // self._settings.joined_share
        return [
            (each, size)
            for each, size in found
            if size < sum(limit(number) * extents[number].all_bytes for number in each)
            or (len(each) > 1 and size >= joined)
            or len(each) >= SMALL_MAX
        ]

    # Compaction

    async def compact(self, compactions: Sequence[Compaction]) -> tuple[int, Made]:
        """Make a volume of the newest records of these partitions, which come by rising number.

        It is to be adopted. Partitions of which something is damaged are not in it. Raises
        CorruptJournal, OSError.
        """
        settled_end = self._state.settled_end
        sealed = self._journal.sealed().behind(settled_end)
        # All of them are read, which takes the longer the more there are.
        sources = [*map(volume_base, self._state.volumes), *(each.base for each in sealed)]
        if self._maker.has_far_sources:
            sources = await self._with_dirty(sources, compactions)
        plan = CompactionPlan(
            self._state.next_volume, self._temporary(), tuple(sources), tuple(compactions)
        )
        return plan.volume, await self._made(plan, self._maker.compact)

    async def _with_dirty(
        self, sources: Sequence[int], compactions: Sequence[Compaction]
    ) -> list[int]:
        """Those that have something of what is to be compacted."""
        found: set[int] = set()
        for each in compactions:
            found.update(await self._lane.log.containers_from(each.number, each.first_dirty_offset))
        return [base for base in sources if base in found]

    async def adopt_compacted(self, volume: int, compacted: Sequence[Compacted]) -> None:
        """What compaction has left of these partitions lies there from now on, and what lay
        elsewhere counts no more; of other partitions nothing is needed there. Raises JournalFull.
        """
        parts = tuple((each.number, each.end, each.byte_count) for each in compacted)
        if parts:
            await self._say(AdoptCompacted(volume, parts, self._names.pop(volume, "")))
        else:
            await self._sweep()

    async def seal(self) -> None:
        """Let all that was appended so far be sealed, if there is room for that."""
        if self._lane.roll():
            await self._journal.checkpoint_now()

    def sealed_end(self) -> int:
        """Where what is written to, or may be replayed, begins in the journal."""
        sealed = self._journal.sealed()
        return sealed[-1].end if sealed else self._state.settled_end

    def compacted_base(self, number: int) -> int | None:
        """Where the volume begins that holds what the last pass has left of a partition."""
        part = self._state.compacted.get(number)
        return volume_base(part.volume) if part is not None and part.byte_count else None

    def _temporary(self) -> str:
        return f".{self._randomness.token_bytes(8).hex()}{TEMPORARY}"

    # Both

    async def _replace(
        self, sources: Sequence[int], replaced: tuple[int, ...], end: Position
    ) -> None:
        """What lives in these sources becomes a volume, if anything does."""
        plan = await self._plan(sources)
        made = await self._made(plan, self._maker.make)
        self._told_of(made)
        if not made.data_bytes:
            await self._adopt((), replaced, end)
            return
        self.volumes_made += 1
        self.bytes_settled += made.data_bytes + made.index_bytes
        await self._adopt((plan.volume,), replaced, end)

    async def _made(self, plan: AnyPlan, make: Callable[[AnyPlan], Awaitable[Made]]) -> Made:
        """Let it be made, and be there to stay if there is anything in it; else nothing is left."""
        self._journal.make_room()
        try:
            made = await make(plan)
            # Who leads by now may make a volume of this number.
            self._lane.check_leads()
            if made.data_bytes:
                self._there[plan.volume] = made.data_bytes + made.index_bytes
                self._names[plan.volume] = await self._store.create(plan.volume, plan.temporary)
            else:
                await self._store.discard(plan.volume, plan.temporary)
        except (CorruptJournal, OSError):
            # Where the disk is full, what was begun would keep it so.
            if self._lane.is_leading:
                await self._store.discard(plan.volume, plan.temporary)
            raise
        return made

    async def _adopt(
        self, added: tuple[int, ...], replaced: tuple[int, ...], end: Position
    ) -> None:
        names = tuple(filter(None, (self._names.pop(number, "") for number in added)))
        await self._say(Settle(added, replaced, end, names))

    async def _say(self, command: "Settle | AdoptCompacted") -> None:
        try:
            self._lane.submit(command)
        finally:
            await self._lane.until_durable()
            if self._lane.is_leading:
                await self._sweep()

    async def _plan(self, sources: Sequence[int]) -> SettlingPlan:
        numbers, starts = await self._kept()
        volume, temporary = self._state.next_volume, self._temporary()
        return SettlingPlan(tuple(sources), numbers, starts, volume, temporary)

    async def _kept(self) -> tuple[bytes, bytes]:
        """The partitions as they are now, and where each begins to count in what is not compacted:
        what is deleted meanwhile goes the next time."""
        numbers, starts = array("q"), array("q")
        for count, partition in enumerate(self._state.hosting.made_by_number(), 1):
            compacted = self._state.compacted.get(partition.number)
            start = partition.log_start_offset
            numbers.append(partition.number)
            starts.append(start if compacted is None else max(start, compacted.end))
            if count % (16 * PARTITIONS_AT_ONCE) == 0:
                await asyncio.sleep(0)
        return numbers.tobytes(), starts.tobytes()
