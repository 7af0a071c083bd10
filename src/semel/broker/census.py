"""Counts what is too much to be counted when somebody asks: how far groups are behind, and how many
groups and transactional ids there are in each state.

A round goes through all of it in small steps with pauses between them, so that it takes a small
share of the loop however much there is. It then takes longer, and what is shown is older.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

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
PAUSE_S: Final = 0.01
WATCH_S: Final = 0.25


class GroupLag(NamedTuple):
    """Of a group in the partitions of one topic."""

    record_count: int
    seconds: float
    """How old the oldest unread batch is; 0 if all is read, or if no time is known."""


class Counted(NamedTuple):
    """What one round has found in the lanes that are led here."""

    lags: dict[tuple[str, str], GroupLag]
    """By group and topic."""
    groups: Counter[str]
    """By state, as Kafka names it."""
    transactional_ids: Counter[str]
    """Likewise."""


class Census:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.latest = Counted({}, Counter(), Counter())
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

    async def round(self) -> Counted:
        counted = Counted({}, Counter(), Counter())
        for lane in self._broker.lanes.led:
            await self._count_transactions(lane, counted)
            await self._count_groups(lane, counted)
        return counted

    async def _count_transactions(self, lane: Lane, counted: Counted) -> None:
        for number, transaction in enumerate(lane.view.transactions(), 1):
            counted.transactional_ids[transaction.status.label] += 1
            if number % LOOKED_AT_MAX == 0:
                await asyncio.sleep(PAUSE_S)

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
