"""Where a consumer stands in each of its partitions, and what was fetched ahead of that. Pure.

Law: a record is handed out only while its partition is assigned, not paused, and its position
certain; an answer counts only for the very position it was asked at, which its `version` tells.

Two threads may look at it, so that each step is taken under `lock`.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from semel.client.connecting.topic_ids import NO_ID
from semel.client.consuming.completed_fetch import NO_EPOCH, CompletedFetch
from semel.client.consuming.partition import PartitionState, Position, Spot, Want
from semel.client.consuming.record import Record
from semel.errors import SemelError
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_Piece = TypeVar("_Piece")

_RESTING_SHARE = 4
"""Of what may be fetched ahead, the part that paused partitions may have on top of it."""


class Positions:
    def __init__(
        self,
        partition_size_max: int,
        buffered_size_max: int,
        lock: AbstractContextManager[Any],
    ) -> None:
        self._partition_size_max = partition_size_max
        self._buffered_size_max = buffered_size_max
        self._lock = lock
        self._states: dict[TopicPartition, PartitionState] = {}
        self._queue: deque[PartitionState] = deque()
        """Partitions with something to hand out, whose turn comes in this order."""
        self._version = 0
        self._replaced_ids: set[bytes] = set()
        """Of topics that were deleted and made anew since."""
        self.has_room_news = False
        """Something was taken, so that more may be fetched."""

    # Which partitions there are

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(self._states)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(one.partition for one in self._states.values() if one.is_paused)

    def add(self, partitions: Iterable[TopicPartition], want: Want) -> None:
        with self._lock:
            for partition in sorted(partitions):
                if partition not in self._states:
                    self._states[partition] = PartitionState(partition, self._next_version(), want)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for partition in partitions:
                state = self._states.pop(partition, None)
                if state is not None:
                    state.fetches.clear()

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def learn_leaders(self, leaders: Mapping[TopicPartition, tuple[int | None, int]]) -> None:
        """Who leads, and in which epoch; older news than what is known are left out."""
        with self._lock:
            for partition, (leader_id, leader_epoch) in leaders.items():
                state = self._states.get(partition)
                if state is None or 0 <= leader_epoch < state.leader_epoch:
                    continue
                state.leader_id = leader_id
                state.leader_epoch = leader_epoch
                self._check(state)

    def forget_leader(self, partition: TopicPartition) -> None:
        with self._lock:
            if partition in self._states:
                self._states[partition].leader_id = None

    def learn_topics(self, topic_ids: Mapping[str, bytes]) -> list[Spot]:
        """The ids that topics have now; where positions were lost, as their topic is another one.

        One that was replaced never comes back: who still says so has not heard of it.
        """
        lost = []
        replaced: set[bytes] = set()
        with self._lock:
            for partition, state in self._states.items():
                topic_id = topic_ids.get(partition.topic, NO_ID)
                if topic_id in (NO_ID, state.topic_id) or topic_id in self._replaced_ids:
                    continue
                before, state.topic_id = state.topic_id, topic_id
                was_read, state.was_read = state.was_read, False
                if before != NO_ID:
                    replaced.add(before)
                    state.leader_epoch = state.checked_epoch = NO_EPOCH
                    self._move(state, state.offset, NO_EPOCH, state.want)
                    if was_read and state.want in (None, Want.CHECK):
                        lost.append(state.spot())
            self._replaced_ids |= replaced
        return lost

    def topic_ids(self) -> dict[TopicPartition, bytes]:
        """Of the topics that were read at these positions."""
        with self._lock:
            states = self._states.items()
            return {partition: one.topic_id for partition, one in states if one.was_read}

    def was_read(self, spot: Spot) -> None:
        """A fetch at this spot was answered."""
        with self._lock:
            state = self._current(spot)
            if state is not None and state.topic_id == spot.topic_id:
                state.was_read = True

    @property
    def has_unled(self) -> bool:
        with self._lock:
            return any(one.leader_id is None for one in self._states.values())

    def _check(self, state: PartitionState) -> None:
        if (
            state.want is None
            and 0 <= state.epoch < state.leader_epoch
            and state.checked_epoch < state.leader_epoch
        ):
            self._move(state, state.offset, state.epoch, Want.CHECK)

    # Where they stand

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        with self._lock:
            self._move(self._states[partition], offset, epoch, None)

    def require(self, partition: TopicPartition, want: Want) -> None:
        """Find this out, whatever was known before."""
        with self._lock:
            self._require(self._states[partition], want)

    def require_at(self, spot: Spot, want: Want) -> bool:
        """As `require`, if the partition still stands at this spot."""
        with self._lock:
            state = self._current(spot)
            if state is None:
                return False
            self._require(state, want)
            return True

    def _require(self, state: PartitionState, want: Want) -> None:
        self._move(state, state.offset, state.epoch, want)

    def _move(self, state: PartitionState, offset: int, epoch: int, want: Want | None) -> None:
        state.version = self._next_version()
        state.offset = offset
        state.epoch = epoch
        state.want = want
        state.fetches.clear()
        self.has_room_news = True

    def wanted(self) -> list[Spot]:
        with self._lock:
            return [
                one.spot() for one in self._states.values() if one.want not in (None, Want.SEEK)
            ]

    def spots(self, partitions: Collection[TopicPartition]) -> list[Spot]:
        with self._lock:
            return [one.spot() for one in self._states.values() if one.partition in partitions]

    def located(self, spot: Spot, offset: int, epoch: int = NO_EPOCH) -> None:
        """The answer to what was wanted at this spot."""
        with self._lock:
            state = self._current(spot)
            if state is not None:
                self._move(state, offset, epoch, None)
                if spot.want is Want.CHECK:
                    state.checked_epoch = spot.leader_epoch
                self._check(state)

    def is_current(self, spot: Spot) -> bool:
        with self._lock:
            return self._current(spot) is not None

    def _current(self, spot: Spot) -> PartitionState | None:
        state = self._states.get(spot.partition)
        return state if state is not None and state.version == spot.version else None

    def position(self, partition: TopicPartition) -> int | None:
        """None as long as it is not known."""
        with self._lock:
            state = self._states[partition]
            return state.offset if state.want in (None, Want.CHECK) else None

    def delivered(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Position]:
        """How far records were handed out; partitions without a position are left out."""
        with self._lock:
            return {
                partition: Position(one.offset, one.epoch, one.topic_id)
                for partition, one in self._states.items()
                if one.want in (None, Want.CHECK)
                and (partitions is None or partition in partitions)
            }

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for partition in partitions:
                state = self._states[partition]
                state.is_paused = True
                self._drop_what_rests(state)

    def _drop_what_rests(self, state: PartitionState) -> None:
        """Only so much is kept for partitions that may stay paused; it can be fetched again."""
        resting_size = sum(one.buffered_size for one in self._states.values() if one.is_paused)
        if state.fetches and resting_size > self._buffered_size_max // _RESTING_SHARE:
            self._move(state, state.offset, state.epoch, None)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for partition in partitions:
                state = self._states[partition]
                state.is_paused = False
                self._enqueue(state)

    def hand_back(self, records: Iterable[Record]) -> None:
        """These were not delivered after all: they come again."""
        firsts: dict[TopicPartition, int] = {}
        for record in records:
            firsts.setdefault(record.topic_partition, record.offset)
        with self._lock:
            for partition, offset in firsts.items():
                if partition in self._states:
                    self._move(self._states[partition], offset, NO_EPOCH, None)

    # What was fetched

    def fetchable(self) -> dict[int, list[Spot]]:
        """What may be asked of which broker; nothing while enough is waiting."""
        with self._lock:
            partitions = [one for one in self._states.values() if one.is_readable]
            if sum(one.buffered_size for one in partitions) >= self._buffered_size_max:
                return {}
            by_leader: dict[int, list[Spot]] = {}
            for one in partitions:
                if one.leader_id is not None and one.buffered_size < self._partition_size_max:
                    by_leader.setdefault(one.leader_id, []).append(one.spot())
            return by_leader

    def put(self, spot: Spot, fetched: CompletedFetch) -> None:
        """The answer to a fetch at this spot."""
        with self._lock:
            state = self._current(spot)
            if state is None or state.spot().offset != spot.offset:
                return
            state.fetches.append(fetched)
            self._enqueue(state)
            if state.is_paused:
                self._drop_what_rests(state)
            # Whoever got something is the last to be asked for next time.
            self._states[spot.partition] = self._states.pop(spot.partition)

    def _enqueue(self, state: PartitionState) -> None:
        if state.fetches and state.is_readable and not state.is_queued:
            state.is_queued = True
            self._queue.append(state)

    @property
    def has_ready(self) -> bool:
        """Whether something may be taken; it can turn out to be nothing but aborted records."""
        with self._lock:
            return any(one.fetches and one.is_readable for one in self._queue)

    def take(self, count_max: int) -> list[Record]:
        taken: list[Record] = []
        for records in self._pieces(count_max, lambda fetched, room: fetched.take(room), len):
            taken += records
        return taken

    def take_rows(self, count_max: int, columns: Collection[str]) -> list["pa.RecordBatch"]:
        return self._pieces(
            count_max,
            lambda fetched, room: fetched.take_rows(room, columns),
            lambda rows: int(rows.num_rows),
        )

    def _pieces(
        self,
        count_max: int,
        take: Callable[[CompletedFetch, int], _Piece],
        count_of: Callable[[_Piece], int],
    ) -> list[_Piece]:
        pieces: list[_Piece] = []
        room = count_max
        with self._lock:
            while room > 0 and self._queue:
                state = self._queue[0]
                if not state.fetches or not state.is_readable:
                    self._queue.popleft().is_queued = False
                    continue
                fetched = state.fetches[0]
                try:
                    piece = take(fetched, room)
                except SemelError:
                    # Fetched again, in case that it was damaged on its way.
                    self._move(state, state.offset, state.epoch, None)
                    if pieces:
                        break
                    raise
                room -= count_of(piece)
                if count_of(piece):
                    pieces.append(piece)
                state.offset, state.epoch = fetched.offset, fetched.epoch
                if fetched.is_done:
                    state.fetches.popleft()
                    self.has_room_news = True
                    self._queue.popleft().is_queued = False
                    self._enqueue(state)
        return pieces
