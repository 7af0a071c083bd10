"""Bugs to plant into the broker from outside: the absence of a rule of retention, of settling or of
compaction, or of a step in the order by which a crash loses nothing."""

from array import array
from bisect import bisect_right
from typing import Any

from msgspec.structs import replace

from mutants.broker_bugs import Bug, Patch
from semel.broker import retention
from semel.broker.retention import Retention
from semel.broker.topic_config import Keeping, keeping_of
from semel.journal import names
from semel.journal.file.journal import FileJournal
from semel.lane import facts
from semel.lane.commands import Decided
from semel.lane.compacting import Compacting
from semel.lane.frame import Frame
from semel.lane.lane import Lane
from semel.lane.partition_log import PartitionLog
from semel.lane.settling import Settling
from semel.lane.state import LaneState
from semel.lane.topics import DeleteExpired
from semel.lane.view import PartitionView
from semel.types import Offset, Position
from semel.volumes import store
from semel.volumes.making import MakesHere
from semel.volumes.plans import Compaction, CompactionPlan, Made, SettlingPlan
from semel.volumes.writing import _File

# Retention


def retention_goes_beyond_the_last_stable_offset(patch: Patch) -> None:
    def greedy(self: DeleteExpired, state: LaneState, at: Any, _: Any) -> Decided[None]:
        frame = Frame(at)
        for number, before in self.before_offsets:
            if number in state.partitions:
                frame.add_fact(facts.RecordsDeleted(number, before))
        return Decided(None, frame)

    async def expired(self: Retention, lane: Any, partition: PartitionView) -> Any:
        topic = self._broker.lanes.catalogue.get(partition.topic_partition.topic)
        if topic is None:
            return None
        keeping = keeping_of(topic.config, self._broker.config)
        before = await lane.log.first_kept(partition, *retention._limits(lane, keeping))
        before = min(before, partition.high_watermark)
        is_more = keeping.is_limited and before > partition.log_start_offset
        return retention.Expired(partition, before, 0, keeping) if is_more else None

    patch.setattr(DeleteExpired, "decide", greedy)
    patch.setattr(Retention, "_expired", expired)


def an_old_batch_takes_all_before_it_along(patch: Patch) -> None:
    """Instead of being kept by a younger one before it."""

    async def last_old(self: PartitionLog, partition: PartitionView, gone_ms: int) -> Offset:
        behind, first = -1, partition.log_start_offset
        while some := await self._batches.few(
            partition.number, partition.log_start_offset, partition.log_end_offset, behind
        ):
            for location in some:
                header = await self._batches.header(location)
                if header.max_timestamp_ms <= gone_ms:
                    first = Offset(header.last_offset + 1)
            behind = some[-1].base_offset
        return first

    patch.setattr(PartitionLog, "_first_younger", last_old)


def half_of_the_bytes_are_enough(patch: Patch) -> None:
    limits = retention._limits

    def halved(lane: Any, keeping: Keeping) -> tuple[int | None, int | None]:
        young_ms, kept_bytes = limits(lane, keeping)
        return young_ms, None if kept_bytes is None else kept_bytes // 2

    patch.setattr(retention, "_limits", halved)


def records_age_twice_as_fast(patch: Patch) -> None:
    limits = retention._limits

    def hastened(lane: Any, keeping: Keeping) -> tuple[int | None, int | None]:
        if keeping.retention_ms is not None:
            keeping = keeping._replace(retention_ms=keeping.retention_ms // 2)
        return limits(lane, keeping)

    patch.setattr(retention, "_limits", hastened)


def nothing_is_ever_too_old(patch: Patch) -> None:
    limits = retention._limits
    patch.setattr(
        retention,
        "_limits",
        lambda lane, keeping: limits(lane, keeping._replace(retention_ms=None)),
    )


# Settling


def a_volume_is_not_synced(patch: Patch) -> None:
    patch.setattr(_File, "sync", lambda self: None)


def the_names_of_a_volume_are_not_synced(patch: Patch) -> None:
    def hasty(device: Any, number: int, temporary: str) -> Any:
        for name in (names.volume(number), names.volume_index(number)):
            device.rename(name + temporary, name)
            yield

    patch.setattr(store, "_create", hasty)


def volumes_go_before_it_is_durable_that_they_are_replaced(patch: Patch) -> None:
    """Who says so waits, and so does who removes them: either is enough."""

    async def say(self: Settling, command: Any) -> None:
        self._lane.submit(command)
        await self._sweep()

    async def sweep(self: Settling) -> None:
        await self._delete(self._there.keys() - self._state.named_volumes())

    patch.setattr(Settling, "_say", say)
    patch.setattr(Settling, "_sweep", sweep)


def segments_go_before_it_is_durable_that_nobody_needs_them(patch: Patch) -> None:
    """A round comes seldom, and a sync takes no time beside it: no seed was seen to find this."""

    class Hasty:
        def __init__(self, lane: Lane) -> None:
            self._lane = lane

        def __getattr__(self, name: str) -> Any:
            return getattr(self._lane, name)

        async def until_durable(self) -> None: ...

    released = Settling._release

    async def release(self: Settling) -> None:
        lane = self._lane
        self._lane = Hasty(lane)  # type: ignore[assignment]
        try:
            await released(self)
        finally:
            self._lane = lane

    patch.setattr(Settling, "_release", release)


def segments_go_that_the_older_checkpoint_needs(patch: Patch) -> None:
    def reckless(self: FileJournal, position: Position) -> bool:
        bases = self.segments.bases
        wanted = bisect_right(bases, position) - 1
        count = min(wanted, bisect_right(bases, self._background.newest_checkpoint) - 1)
        if self._is_note_in_doubt or self._commit.failure is not None:
            return False
        if count > 0:
            released = bases[:count].tolist()
            self.segments.release(count)
            self.index.release_before(bases[0])
            self._note = self._note._replace(
                durable=self._commit.durable, released=self.segments.bases[0]
            )
            self._background.release(self._note, released)
        return wanted <= count

    patch.setattr(FileJournal, "release_before", reckless)


def what_compaction_has_made_is_taken_for_an_orphan(patch: Patch) -> None:
    patch.setattr(LaneState, "named_volumes", lambda self: set(self.volumes))


def what_is_settled_is_taken_for_an_orphan_at_a_start(patch: Patch) -> None:
    start = Settling.start

    async def tidy(self: Settling) -> None:
        await start(self)
        await self._store.delete(self._there.keys() & set(self._state.volumes[:1]))

    patch.setattr(Settling, "start", tidy)


def what_is_deleted_is_settled_too(patch: Patch) -> None:
    plan = Settling._plan

    async def from_zero(self: Settling, sources: Any) -> SettlingPlan:
        planned = await plan(self, sources)
        starts = array("q", bytes(len(planned.starts)))
        return replace(planned, starts=starts.tobytes())

    patch.setattr(Settling, "_plan", from_zero)


def what_starts_behind_it_is_not_settled(patch: Patch) -> None:
    """The first batch that reaches the start of a log is cut off."""
    plan = Settling._plan

    async def too_late(self: Settling, sources: Any) -> SettlingPlan:
        planned = await plan(self, sources)
        starts = array("q", (each + 1 for each in array("q", planned.starts)))
        return replace(planned, starts=starts.tobytes())

    patch.setattr(Settling, "_plan", too_late)


# Compaction


def open_transactions_are_compacted(patch: Patch) -> None:
    class Beyond:
        def __init__(self, partition: PartitionView) -> None:
            self._partition = partition
            self.last_stable_offset = partition.high_watermark

        def __getattr__(self, name: str) -> Any:
            return getattr(self._partition, name)

    candidate = Compacting._candidate

    async def beyond(self: Compacting, partition: PartitionView, *others: Any) -> Any:
        subject: Any = Beyond(partition)
        return await candidate(self, subject, *others)

    patch.setattr(Compacting, "_candidate", beyond)


def aborted_records_count_as_values(patch: Patch) -> None:
    _compact_with(patch, aborted=())


def deletions_are_forgotten_at_once(patch: Patch) -> None:
    _compact_with(patch, delete_retention_ms=0)


def what_an_earlier_pass_has_left_is_not_read(patch: Patch) -> None:
    _compact_with(patch, compacted_base=None)


def a_pass_says_that_it_went_further_than_it_did(patch: Patch) -> None:
    compact = MakesHere.compact

    async def boastful(self: MakesHere, plan: CompactionPlan) -> Made:
        made = await compact(self, plan)
        return replace(
            made, compacted=tuple(replace(each, end=each.end + 4) for each in made.compacted)
        )

    patch.setattr(MakesHere, "compact", boastful)


def _compact_with(patch: Patch, **changes: Any) -> None:
    compaction = Compacting._compaction

    async def changed(self: Compacting, candidate: Any) -> Compaction:
        return replace(await compaction(self, candidate), **changes)

    patch.setattr(Compacting, "_compaction", changed)


LOST = (
    r"was acknowledged \(acks=-1\)|not whole|was shown|could not open|CorruptJournal|other ones"
    r"|error 56|began at"
)
EARLY = r"before its time"
FORGOTTEN = r"(hot|cold)-\d+ of .* (is gone|again), though"

FORGETTING_BUGS = (
    Bug(1, retention_goes_beyond_the_last_stable_offset, r"was open at", first_seed=7),
    Bug(1, an_old_batch_takes_all_before_it_along, EARLY),
    Bug(1, half_of_the_bytes_are_enough, r"was cut to"),
    Bug(1, records_age_twice_as_fast, EARLY),
    Bug(1, nothing_is_ever_too_old, r"after its time"),
    Bug(2, a_volume_is_not_synced, LOST),
    Bug(2, the_names_of_a_volume_are_not_synced, LOST),
    Bug(2, volumes_go_before_it_is_durable_that_they_are_replaced, LOST, first_seed=8),
    Bug(2, segments_go_that_the_older_checkpoint_needs, LOST, first_seed=2),
    Bug(2, what_compaction_has_made_is_taken_for_an_orphan, LOST),
    Bug(2, what_is_settled_is_taken_for_an_orphan_at_a_start, LOST),
    Bug(2, what_is_deleted_is_settled_too, r"the disk holds"),
    Bug(2, what_starts_behind_it_is_not_settled, LOST),
    Bug(3, open_transactions_are_compacted, FORGOTTEN, first_seed=2),
    Bug(3, aborted_records_count_as_values, FORGOTTEN),
    Bug(3, deletions_are_forgotten_at_once, FORGOTTEN),
    Bug(3, what_an_earlier_pass_has_left_is_not_read, FORGOTTEN),
    Bug(3, a_pass_says_that_it_went_further_than_it_did, FORGOTTEN),
)
"""1: retention, 2: settling, 3: compaction."""
