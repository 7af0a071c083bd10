"""Deletes what topics keep no longer, and has its room given back: a round now and then.

Kafka's rules, by the batch and not by the segment: the oldest go first, and one that is young
enough keeps all behind it. Nothing at or behind the last stable offset goes.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.broker import log
from semel.broker.largest import Largest
from semel.broker.topic_config import Keeping, compaction_of, keeping_of
from semel.broker.topic_counts import TopicSize
from semel.errors import CorruptJournal, JournalFull, RequestError
from semel.lane.compacting import CompactionSettings
from semel.lane.lane import Lane
from semel.lane.topics import DeleteExpired
from semel.lane.view import PartitionView, TopicView
from semel.types import Offset

if TYPE_CHECKING:
    from semel.broker.broker import Broker

PARTITIONS_AT_ONCE: Final = 64
"""Looked at before others have their turn."""

TOPICS_AT_ONCE: Final = 1000
"""Likewise, where each is only asked whether it exists."""

PARTITIONS_LEFT_MAX: Final = 16
"""In segments that are left as they are until all of it goes: one of few partitions is read without
many gaps."""

TOPICS_TOLD: Final = 5
"""Of the largest, when the disk is filling."""

DELETIONS_AT_ONCE: Final = 500
"""In one frame."""


class Expired(NamedTuple):
    """Records of a partition that its topic keeps no longer."""

    partition: PartitionView
    before: Offset
    byte_count: int
    keeping: Keeping
    """By which this is so."""


class Policies:
    """What topics say now of what is kept of them, to who asks for the partitions of a lane."""

    def __init__(self, broker: "Broker", lane: Lane) -> None:
        self._broker = broker
        self._lane = lane

    def topic(self, name: str) -> TopicView | None:
        """None also if nobody has told of any: what is not known is kept."""
        lanes = self._broker.lanes
        return lanes.catalogue.get(name) if lanes.knows_topics else None

    def keeping_of(self, partition: PartitionView) -> Keeping | None:
        topic = self.topic(partition.topic_partition.topic)
        return None if topic is None else keeping_of(topic.config, self._broker.config)

    def settings_of(self, partition: PartitionView) -> CompactionSettings | None:
        """None also if it is not compacted."""
        topic = self.topic(partition.topic_partition.topic)
        if topic is None or not keeping_of(topic.config, self._broker.config).is_compacted:
            return None
        return compaction_of(topic.config, self._broker.config)

    async def until_durable(self) -> None:
        """They may be said in another lane, and be lost there. Elsewhere only what is durable is
        told."""
        lanes = self._broker.lanes
        if lanes.leads_catalogue and self._lane is not lanes.controller:
            controller = lanes.controller
            await controller.while_leading(controller.until_durable())


class Retention:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._is_deleting = False
        self._compaction_failure: str | None = None
        """What was told last, and has not passed since."""

    async def ask(self) -> None:
        """Of what was written when nothing was ever deleted: say what would go, and wait."""
        for lane in self._broker.lanes.led:
            if not lane.view.is_retention_enforced:
                await lane.while_leading(self._ask(lane))

    async def round(self, *, may_expire: bool = True) -> None:
        """Delete what topics keep no longer, if that may be judged yet; give room back."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        await self._tidy(may_expire)
        await self.measure()
        metrics = self._broker.metrics
        metrics.retention_rounds += 1
        metrics.retention_round_seconds = loop.time() - started_s
        metrics.retention_round_ended_ms = max(
            (lane.view.wall_ms() for lane in self._broker.lanes.led), default=0
        )

    async def measure(self) -> None:
        """How much there is of each topic: too long a look for whoever asks for metrics."""
        byte_counts: dict[str, int] = {}
        record_counts: dict[str, int] = {}
        for lane in self._broker.lanes.led:
            for number, partition in enumerate(lane.view.partitions()):
                if number % PARTITIONS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                topic = partition.topic_partition.topic
                record_count = partition.high_watermark - partition.log_start_offset
                record_counts[topic] = record_counts.get(topic, 0) + max(0, record_count)
                try:
                    byte_count = await lane.log.bytes_of(partition)
                except (CorruptJournal, OSError) as error:
                    self._broker.found_unreadable(partition.topic_partition, error)
                    continue
                byte_counts[topic] = byte_counts.get(topic, 0) + byte_count
        await self._note_largest(byte_counts, record_counts)
        await self._forget_counts_of_gone_topics()

    async def _note_largest(
        self, byte_counts: dict[str, int], record_counts: dict[str, int]
    ) -> None:
        largest = Largest[str](max(self._broker.config.metrics_labels_max, TOPICS_TOLD))
        byte_sum = 0
        for number, (name, byte_count) in enumerate(byte_counts.items()):
            if number % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
            largest.add(name, byte_count)
            byte_sum += byte_count
        metrics = self._broker.metrics
        metrics.topic_bytes_sum = byte_sum
        metrics.largest_topics = tuple(
            TopicSize(name, byte_counts[name], record_counts.get(name, 0))
            for name in largest.names()
        )

    async def _forget_counts_of_gone_topics(self) -> None:
        metrics, lanes = self._broker.metrics, self._broker.lanes
        for number, (name, _) in enumerate(metrics.counted_topics()):
            if number % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if lanes.knows_topics and name not in lanes.catalogue:
                metrics.forget_topic(name)

    async def _tidy(self, may_expire: bool) -> None:
        for lane in self._broker.lanes.led:
            await lane.while_leading(self._tidy_lane(lane, may_expire))

    async def _tidy_lane(self, lane: Lane, may_expire: bool) -> None:
        lane.settling.on_damage = self._broker.found_unreadable
        compacted: set[int] = set()
        is_more = lane.view.is_retention_enforced
        if is_more and may_expire:
            # What is deleted already gives its room back all the same.
            with suppress(JournalFull):
                await self._delete_expired(lane)
        end = None
        while is_more and lane.is_leading:
            # Between two passes, as each needs room before it gives some. To copy what is still to
            # be compacted would be in vain.
            if lane.duties.is_short_of_room or lane.settling.is_piled_up:
                await self._settle(lane)
            elif compacted:
                await lane.settling.give_back()
            is_more = await self._compact(lane, compacted)
            # What has come since waits for the next round, in which it is compacted first.
            end = lane.compacting.looked_end
        await self._settle(lane, end)

    async def _settle(self, lane: Lane, end: int | None = None) -> None:
        lane.settling.will_die = partial(self._will_die, lane)
        await lane.settling.round(self._broker.warn, end)

    async def delete_expired(self) -> None:
        """The first part of a round, for while another one still settles, which may take long."""
        for lane in self._broker.lanes.led:
            if lane.view.is_retention_enforced:
                with suppress(JournalFull):
                    await lane.while_leading(self._delete_expired(lane))

    async def _delete_expired(self, lane: Lane) -> None:
        if not self._is_deleting:
            self._is_deleting = True
            try:
                await self._look_for_expired(lane)
            finally:
                self._is_deleting = False

    async def _look_for_expired(self, lane: Lane) -> None:
        expired: list[Expired] = []
        for number, partition in enumerate(lane.view.partitions()):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            found = await self._expired(lane, partition)
            if found is not None:
                expired.append(found)
            if len(expired) == DELETIONS_AT_ONCE:
                await self._delete(lane, expired)
                expired = []
        await self._delete(lane, expired)

    async def _compact(self, lane: Lane, compacted: set[int]) -> bool:
        """One pass; whether there are partitions that are worth another."""
        try:
            is_more = await lane.compacting.round(Policies(self._broker, lane), compacted)
        except JournalFull:
            return False
        except (CorruptJournal, OSError) as error:
            # Once: it may be so in each round.
            if self._compaction_failure != str(error):
                self._compaction_failure = str(error)
                self._broker.warn(f"topics are not compacted, which is tried again: {error}")
            return False
        self._compaction_failure = None
        return is_more

    async def _delete(self, lane: Lane, expired: list[Expired]) -> None:
        if not expired:
            return
        policies = Policies(self._broker, lane)
        await policies.until_durable()
        # It may have been changed while others were looked at.
        still = [each for each in expired if policies.keeping_of(each.partition) == each.keeping]
        if lane.is_leading and still:
            lane.submit(
                DeleteExpired(tuple((each.partition.number, each.before) for each in still))
            )
            byte_count = sum(each.byte_count for each in still)
            self._broker.metrics.retention_bytes_deleted += byte_count

    async def _expired(self, lane: Lane, partition: PartitionView) -> Expired | None:
        if partition.log_start_offset >= partition.last_stable_offset:
            return None
        keeping = Policies(self._broker, lane).keeping_of(partition)
        if keeping is None or not keeping.is_limited:
            return None
        try:
            before = await lane.log.first_kept(partition, *_limits(lane, keeping))
            before = min(before, partition.last_stable_offset)
            start = partition.log_start_offset
            if before <= start:
                return None
            byte_count = await lane.log.bytes_between(partition, start, before)
        except (CorruptJournal, OSError, RequestError) as error:
            self._broker.found_unreadable(partition.topic_partition, error)
            return None
        return Expired(partition, before, byte_count, keeping)

    async def _will_die(self, lane: Lane, end: int) -> bool:
        """Whether what lives in the journal before `end` is kept for one time, in few partitions:
        to settle it would only be to write it twice."""
        policies = Policies(self._broker, lane)
        keepings = set()
        count = 0
        for number, (partition, position) in enumerate(lane.settling.first_positions.items(), 1):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            topic = policies.topic(partition.topic)
            if position < end and topic is not None:
                keepings.add(keeping_of(topic.config, self._broker.config))
                count += 1
                if len(keepings) > 1 or count > PARTITIONS_LEFT_MAX:
                    return False
        if not keepings:
            return False
        (keeping,) = keepings
        is_by_time = keeping.retention_ms is not None and keeping.retention_bytes is None
        return is_by_time and not keeping.is_compacted

    async def _ask(self, lane: Lane) -> None:
        byte_counts: dict[str, int] = {}
        for number, partition in enumerate(lane.view.partitions()):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            found = await self._expired(lane, partition)
            if found is not None:
                topic = partition.topic_partition.topic
                byte_counts[topic] = byte_counts.get(topic, 0) + found.byte_count
        log.warning(
            "retention is not enforced: this folder was written by a version that kept everything. "
            "Start once with --set retention.enforce=true to let topics delete what their settings "
            "say; it is remembered",
            bytes_to_be_deleted=sum(byte_counts.values()),
            topics=dict(sorted(byte_counts.items(), key=lambda each: -each[1])[:10]),
        )


def _limits(lane: Lane, keeping: Keeping) -> tuple[int | None, int | None]:
    """The time of the youngest batch that goes, and the bytes that stay."""
    youngest_gone_ms = None
    if keeping.retention_ms is not None:
        youngest_gone_ms = lane.view.steady_wall_ms() - keeping.retention_ms - 1
    return youngest_gone_ms, keeping.retention_bytes
