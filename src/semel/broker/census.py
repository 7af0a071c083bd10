"""Counts what is too much to be counted when somebody asks: how far groups are behind, how many
groups and transactional ids there are in each state, what open transactions hold back, and which
topics are the busiest.

A round goes through all of it in small steps with pauses between them, so that it takes a small
share of the loop however much there is. It then takes longer, and what is shown is older.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.broker.largest import Largest
from semel.broker.retention import Retention
from semel.durations import Durations
from semel.errors import RequestError
from semel.lane.calls import AskLags, Lag, Lags, LaneAway
from semel.lane.lane import Lane
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.broker.broker import Broker

LOOKED_AT_MAX: Final = 100
"""Partitions, groups or transactional ids between two pauses; takes less than a millisecond."""
CHOSEN_FROM_MAX: Final = 1000
"""Likewise, values that are only compared."""
PAUSE_S: Final = 0.01
WATCH_S: Final = 0.25


class GroupLag(NamedTuple):
    """Of a group in the partitions of one topic."""

    record_count: int
    seconds: float
    """How old the oldest unread batch is; 0 if all is read, or if no time is known."""


class Counted:
    """What one round has found in the lanes that are led here."""

    def __init__(self) -> None:
        self.lags: dict[tuple[str, str], GroupLag] = {}
        """By group and topic."""
        self.groups = Counter[str]()
        """By state, as Kafka names it."""
        self.transactional_ids = Counter[str]()
        """Likewise."""
        self.held_back: dict[str, int] = {}
        """By topic, offsets between the end and where read_committed readers stop, at most."""
        self.oldest_open_ms: int | None = None
        """When the transaction began that has been open for longest."""
        self.shown = Shown()


class Shown(NamedTuple):
    """Of what was counted, as much as is shown."""

    lags: tuple[tuple[tuple[str, str], GroupLag], ...] = ()
    """The largest."""
    lag_sum: int = 0
    """Of all."""
    held_back: tuple[tuple[str, int], ...] = ()
    held_back_max: int = 0
    busiest: tuple[str, ...] = ()
    """Of the topics that there were."""


class Census:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.latest = Counted()
        self.round_count = 0
        self.lateness = Durations()

    def begin(self) -> None:
        """With the tasks of the broker."""
        self._broker.start_task(self._count())
        self._broker.start_task(self._watch_loop())

    async def _watch_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_at = loop.time() + WATCH_S
            await asyncio.sleep(WATCH_S)
            self.lateness.add(max(0.0, loop.time() - due_at))

    async def _count(self) -> None:
        is_first = True
        while True:
            try:
                if is_first:
                    # The first round of retention comes later.
                    await Retention(self._broker).measure()
                    is_first = False
                self.latest = await self.round()
                self.round_count += 1
            except RequestError:
                # A lane was handed over meanwhile.
                pass
            except Exception as error:  # noqa: BLE001 - the next round tries again.
                self._broker.complain("what metrics show could not be counted", error)
            await asyncio.sleep(self._broker.config.metrics_interval_ms / 1000)

    def age_s(self, since_ms: int | None) -> float:
        """How long ago that was; 0 if there is nothing that began."""
        return 0.0 if since_ms is None else max(0, self._broker.wall_ms() - since_ms) / 1000

    async def round(self) -> Counted:
        counted = Counted()
        for lane in self._broker.lanes.led:
            for number, _ in enumerate(self._transactions(lane, counted), 1):
                if number % LOOKED_AT_MAX == 0:
                    await asyncio.sleep(PAUSE_S)
            await self._count_groups(lane, counted)
        for number, _ in enumerate(self._choose(counted), 1):
            if number % CHOSEN_FROM_MAX == 0:
                await asyncio.sleep(PAUSE_S)
        return counted

    def _transactions(self, lane: Lane, counted: Counted) -> Iterator[None]:
        """Given after each id, and each partition of those that are open."""
        for transaction in lane.view.transactions():
            counted.transactional_ids[transaction.status.label] += 1
            yield
            if transaction.is_open:
                begun_ms = transaction.started_at_ms
                oldest_ms = counted.oldest_open_ms
                counted.oldest_open_ms = begun_ms if oldest_ms is None else min(oldest_ms, begun_ms)
                yield from self._held_back(lane, transaction.partitions, counted)
        for joined in lane.view.all_joined():
            yield from self._held_back(lane, joined.partitions, counted)

    @staticmethod
    def _held_back(lane: Lane, partitions: Set[TopicPartition], counted: Counted) -> Iterator[None]:
        for topic, index in partitions:
            written = lane.view.written(topic, index)
            if written is not None:
                lag = written.high_watermark - written.last_stable_offset
                if lag > counted.held_back.get(topic, 0):
                    counted.held_back[topic] = lag
            yield

    def _choose(self, counted: Counted) -> Iterator[None]:
        """Given after each that was looked at."""
        shown_max = self._broker.config.metrics_labels_max
        lags, held_back = Largest[tuple[str, str]](shown_max), Largest[str](shown_max)
        lag_sum = held_back_max = 0
        for labels, its in counted.lags.items():
            lags.add(labels, its.record_count)
            lag_sum += its.record_count
            yield
        for topic, lag in counted.held_back.items():
            held_back.add(topic, lag)
            held_back_max = max(held_back_max, lag)
            yield
        busiest = Largest[str](shown_max)
        for topic, counts in self._broker.metrics.counted_topics():
            busiest.add(topic, counts.bytes_in + counts.bytes_out)
            yield
        counted.shown = Shown(
            tuple((labels, counted.lags[labels]) for labels in lags.names()),
            lag_sum,
            tuple((topic, counted.held_back[topic]) for topic in held_back.names()),
            held_back_max,
            tuple(busiest.names()),
        )

    async def _count_groups(self, lane: Lane, counted: Counted) -> None:
        asked: defaultdict[int, list[tuple[str, TopicPartition, int]]] = defaultdict(list)
        for number, position in enumerate(self._positions(lane, counted), 1):
            if number % LOOKED_AT_MAX == 0:
                await asyncio.sleep(PAUSE_S)
            if position is None:
                continue
            its_lane = self._broker.lanes.number_of(*position[1])
            if its_lane is None:
                continue
            asked[its_lane].append(position)
            if len(asked[its_lane]) == LOOKED_AT_MAX:
                await self._ask(its_lane, asked.pop(its_lane), counted)
        for its_lane, positions in asked.items():
            await self._ask(its_lane, positions, counted)

    @staticmethod
    def _positions(
        lane: Lane, counted: Counted
    ) -> Iterator[tuple[str, TopicPartition, int] | None]:
        """What all groups have committed; None for each group too, so that every step counts."""
        for group in lane.view.groups():
            counted.groups[group.state] += 1
            yield None
            for partition, offset in lane.view.committed_offsets(group.group_id):
                yield group.group_id, partition, offset

    async def _ask(
        self, lane: int, positions: list[tuple[str, TopicPartition, int]], counted: Counted
    ) -> None:
        said = AskLags(tuple((*partition, offset) for _, partition, offset in positions))
        try:
            reply = await self._broker.peers.ask(lane, said)
        except LaneAway:
            return
        if not isinstance(reply, Lags):
            return
        for (group, partition, _), lag in zip(positions, reply.lags, strict=True):
            if lag is not None:
                self._add(counted, group, partition.topic, lag)
        await asyncio.sleep(PAUSE_S)

    def _add(self, counted: Counted, group: str, topic: str, lag: Lag) -> None:
        seconds = 0.0
        if lag.since_ms >= 0:
            seconds = max(0, self._broker.wall_ms() - lag.since_ms) / 1000
        before = counted.lags.get((group, topic))
        if before is not None:
            lag_records = before.record_count + lag.record_count
            counted.lags[group, topic] = GroupLag(lag_records, max(before.seconds, seconds))
        else:
            counted.lags[group, topic] = GroupLag(lag.record_count, seconds)
