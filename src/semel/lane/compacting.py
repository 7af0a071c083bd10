"""Which partitions are compacted, and when: those with most that newer records have replaced."""

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from semel.compaction.eligibility import Dirtiness
from semel.errors import CorruptJournal, CorruptMessage
from semel.lane.commands import SettlingSettings
from semel.lane.settling import Settling
from semel.lane.state import LaneState
from semel.lane.view import PartitionView
from semel.types import Offset
from semel.volumes.plans import Compaction

if TYPE_CHECKING:
    from semel.lane.lane import Lane

PARTITIONS_AT_ONCE: Final = 64
"""Looked at before others have their turn."""

NO_LAG_MS_MAX: Final = 2**63 - 1


ROLL_PAUSE_MS: Final = 60_000
"""Between two rolls for the sake of compaction, at least: each costs a checkpoint."""

COMPACTED_AT_ONCE: Final = 500
"""Partitions of one pass, which one fact names."""


class CompactionSettings(NamedTuple):
    """Of a topic, named after Kafka's."""

    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    segment_ms: int
    min_cleanable_dirty_ratio: float
    buffer_size: int

    @property
    def roll_ms(self) -> int:
        """How old records may become in a segment that is not full. As in Kafka, where a topic has
        segments of its own."""
        return max(min(self.segment_ms, self.max_compaction_lag_ms), self.min_compaction_lag_ms)


class CompactionPolicies(Protocol):
    """What topics say of their compaction, which they may change at any time."""

    def settings_of(self, partition: PartitionView) -> CompactionSettings | None:
        """As they are now. None if it is not to be compacted, or that is not known."""

    async def until_durable(self) -> None:
        """What is said by now can no longer be lost."""


class _Candidate(NamedTuple):
    partition: PartitionView
    settings: CompactionSettings
    first_dirty_offset: Offset
    end: Offset
    size: int
    """Bytes of all that a pass reads."""
    worth: float


class Compacting:
    def __init__(
        self, lane: "Lane", state: LaneState, settling: Settling, settings: SettlingSettings
    ) -> None:
        self._lane = lane
        self._state = state
        self._settling = settling
        self._settings = settings
        self._damaged: dict[int, Offset] = {}
        """Partitions of which something could not be read, and where their logs began then: until
        that moves they would be read in vain."""
        self._rolled_ms: int | None = None
        """When the journal was last rolled for this."""
        self._seen_end = settling.sealed_end()
        self._seen_since_ms = lane.view.steady_wall_ms()
        """Since when the journal was sealed up to there, as far as is known."""
        self.looked_end = settling.sealed_end()
        """Where it was sealed up to when the first pass of a round looked for what is worth it."""
        self.pass_count = 0
        self.bytes_read = 0
        self.bytes_written = 0

    async def round(self, policies: CompactionPolicies, done: set[int] | None = None) -> bool:
        """One pass over as many partitions as fill a volume, those first that gain most; whether
        there are more. Those that are `done` are left out, and those of the pass become so.

        Raises JournalFull, CorruptJournal, OSError.
        """
        if done is None:
            done = set()
        if not done:
            self.looked_end = self._settling.sealed_end()
            if await self._is_roll_due(policies):
                self._rolled_ms = self._lane.view.now_ms()
                await self._settling.seal()
                self.looked_end = self._settling.sealed_end()
        candidates = [
            each for each in await self._candidates(policies) if each.partition.number not in done
        ]
        chosen: list[_Candidate] = []
        size = 0
        for candidate in candidates:
            if chosen and size + candidate.size > self._settings.volume_bytes:
                break
            chosen.append(candidate)
            size += candidate.size
        is_more = len(chosen) < len(candidates)
        done.update(each.partition.number for each in chosen)
        chosen.sort(key=lambda each: each.partition.number)
        compactions: list[Compaction] = []
        for candidate in chosen:
            try:
                compactions.append(await self._compaction(candidate))
            except CorruptJournal as damage:
                self._found_damage(candidate.partition, damage)
        if compactions and self._lane.is_leading:
            volume, made = await self._settling.compact(compactions)
            by_number = {each.partition.number: each for each in chosen}
            for each in made.damaged:
                partition = by_number[each.number].partition
                self._found_damage(partition, CorruptJournal(each.reason))
            self.pass_count += 1
            self.bytes_read += size
            self.bytes_written += made.data_bytes + made.index_bytes
            await policies.until_durable()
            # A pass takes its time. What was made for a topic that wants something else by now is
            # named by nobody.
            still = [
                each
                for each in made.compacted
                if policies.settings_of(by_number[each.number].partition)
                == by_number[each.number].settings
            ]
            await self._settling.adopt_compacted(volume, still)
        return is_more

    async def _is_roll_due(self, policies: CompactionPolicies) -> bool:
        """Whether records that could be compacted have waited for too long in a segment that only
        few come to."""
        now_ms = self._lane.view.now_ms()
        if self._rolled_ms is not None and now_ms - self._rolled_ms < ROLL_PAUSE_MS:
            return False
        sealed_end = self._settling.sealed_end()
        if sealed_end != self._seen_end:
            self._seen_end = sealed_end
            self._seen_since_ms = self._lane.view.steady_wall_ms()
        for number, partition in enumerate(self._lane.view.partitions()):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            settings = policies.settings_of(partition)
            if settings is None or partition.number in self._damaged:
                continue
            try:
                if await self._waits_for_roll(partition, settings, sealed_end):
                    return True
            except (CorruptJournal, CorruptMessage, OSError) as damage:
                self._settling.on_damage(partition.topic_partition, damage)
        return False

    async def _waits_for_roll(
        self, partition: PartitionView, settings: CompactionSettings, sealed_end: int
    ) -> bool:
        log, end = self._lane.log, partition.last_stable_offset
        active = await log.offset_behind(partition, sealed_end)
        if active is None or active >= end or end <= partition.log_start_offset:
            return False
        now_ms = self._lane.view.steady_wall_ms()
        begun_ms = await log.time_at(partition, max(active, partition.log_start_offset))
        if begun_ms is None or not 0 <= begun_ms <= now_ms:
            # Of the producer's time, by which Kafka goes as well, nothing can be told.
            begun_ms = self._seen_since_ms
        if begun_ms >= now_ms - settings.roll_ms:
            return False
        start = partition.log_start_offset
        first_dirty = self._first_dirty_offset(partition)
        clean_size = await log.bytes_between(partition, start, first_dirty)
        dirty_size = await log.bytes_between(partition, first_dirty, end)
        return Dirtiness(clean_size, dirty_size, begun_ms).is_eligible(
            now_ms, settings.min_cleanable_dirty_ratio, settings.max_compaction_lag_ms
        )

    def _first_dirty_offset(self, partition: PartitionView) -> Offset:
        start, compacted = partition.log_start_offset, self._state.compacted.get(partition.number)
        return start if compacted is None else max(start, compacted.end)

    async def _candidates(self, policies: CompactionPolicies) -> list[_Candidate]:
        """Those that gain most, as many as one pass takes."""
        mostly_gone = self._mostly_gone()
        sealed_end = self._settling.sealed_end()
        candidates: list[_Candidate] = []
        for number, partition in enumerate(self._lane.view.partitions()):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            settings = policies.settings_of(partition)
            if settings is None:
                continue
            if self._damaged.get(partition.number) == partition.log_start_offset:
                continue
            try:
                candidate = await self._candidate(partition, settings, sealed_end, mostly_gone)
            except (CorruptJournal, CorruptMessage) as damage:
                # Others are compacted all the same.
                self._found_damage(partition, damage)
                continue
            except OSError as error:
                self._settling.on_damage(partition.topic_partition, error)
                continue
            if candidate is not None:
                candidates.append(candidate)
                if len(candidates) == 2 * COMPACTED_AT_ONCE:
                    candidates = _best(candidates)
        return _best(candidates)

    def _found_damage(self, partition: PartitionView, damage: Exception) -> None:
        self._damaged[partition.number] = partition.log_start_offset
        self._settling.on_damage(partition.topic_partition, damage)

    def _mostly_gone(self) -> set[int]:
        """Volumes of earlier passes of which little is needed: what is left of them is compacted
        again, so that they can go."""
        live_bytes = self._state.compacted_live_bytes
        return {
            volume
            for volume, byte_count in self._state.compacted_volumes.items()
            if 2 * live_bytes[volume] < byte_count
        }

    async def _candidate(
        self,
        partition: PartitionView,
        settings: CompactionSettings,
        sealed_end: int,
        mostly_gone: set[int],
    ) -> _Candidate | None:
        log, start = self._lane.log, partition.log_start_offset
        compacted = self._state.compacted.get(partition.number)
        first_dirty = self._first_dirty_offset(partition)
        now_ms = self._lane.view.steady_wall_ms()
        # Nothing is touched that is written to, or whose transaction is open.
        active = await log.offset_behind(partition, sealed_end)
        end = partition.last_stable_offset
        if active is not None:
            end = min(end, active)
        if settings.min_compaction_lag_ms > 0:
            old_ms = now_ms - settings.min_compaction_lag_ms
            end = min(end, await log.first_kept(partition, old_ms, None))
        end = max(end, first_dirty)
        is_moved = (
            compacted is not None and compacted.byte_count > 0 and compacted.volume in mostly_gone
        )
        if end == first_dirty and not is_moved:
            return None
        clean_size = await log.bytes_between(partition, start, first_dirty)
        dirty_size = await log.bytes_between(partition, first_dirty, end)
        oldest_ms = None
        if settings.max_compaction_lag_ms < NO_LAG_MS_MAX and dirty_size:
            oldest_ms = await log.time_at(partition, first_dirty)
        dirtiness = Dirtiness(clean_size, dirty_size, oldest_ms)
        if not is_moved and not dirtiness.is_eligible(
            now_ms, settings.min_cleanable_dirty_ratio, settings.max_compaction_lag_ms
        ):
            return None
        size = clean_size + dirty_size
        return _Candidate(partition, settings, first_dirty, end, size, dirtiness.ratio)

    async def _compaction(self, candidate: _Candidate) -> Compaction:
        partition, settings = candidate.partition, candidate.settings
        start, end = partition.log_start_offset, candidate.end
        first_dirty = candidate.first_dirty_offset
        aborted = await self._lane.log.aborted(partition, start, end)
        dirty_aborted = await self._lane.log.aborted(partition, first_dirty, end)
        return Compaction(
            partition.number,
            start,
            self._settling.compacted_base(partition.number),
            first_dirty,
            end,
            tuple((each.producer_id, each.first_offset) for each in aborted),
            tuple((each.producer_id, each.first_offset) for each in dirty_aborted),
            self._aborted_before(partition.number),
            self._lane.view.steady_wall_ms(),
            settings.delete_retention_ms,
            settings.buffer_size,
        )

    def _aborted_before(self, number: int) -> tuple[tuple[int, int, int, int], ...]:
        partition = self._state.partitions.get(number)
        before = None if partition is None else partition.transactions.aborted_before
        return () if before is None else tuple(before)


def _best(candidates: list[_Candidate]) -> list[_Candidate]:
    candidates.sort(key=lambda each: each.worth, reverse=True)
    return candidates[:COMPACTED_AT_ONCE]
