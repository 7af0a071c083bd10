"""Where a consumer stands in each of its partitions, and what was fetched ahead of that. Pure.

Law: a record is handed out only while its partition is assigned, not paused, and its position
certain; an answer counts only for the very position it was asked at, which its `version` tells.

Two threads may look at it, so that each step is taken under `lock`.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

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
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._queue: deque[PartitionState] = deque()
        """Partitions with something to hand out, whose turn comes in this order."""
        self._version = 0
        self.has_room_news = False
        """Something was taken, so that more may be fetched."""

    # Which partitions there are

    @property
    def places(self) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(self._partitions)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(one.place for one in self._partitions.values() if one.is_paused)

    def add(self, places: Iterable[TopicPartition], want: Want) -> None:
        with self._lock:
            for place in sorted(places):
                if place not in self._partitions:
                    self._partitions[place] = PartitionState(place, self._next_version(), want)

    def remove(self, places: Iterable[TopicPartition]) -> None:
        with self._lock:
            for place in places:
                partition = self._partitions.pop(place, None)
                if partition is not None:
                    partition.fetches.clear()

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def learn_leaders(self, leaders: Mapping[TopicPartition, tuple[int | None, int]]) -> None:
        """Who leads, and in which epoch; older news than what is known are left out."""
        with self._lock:
            for place, (leader_id, leader_epoch) in leaders.items():
                partition = self._partitions.get(place)
                if partition is None or 0 <= leader_epoch < partition.leader_epoch:
                    continue
                partition.leader_id = leader_id
                partition.leader_epoch = leader_epoch
                self._check(partition)

    def forget_leader(self, place: TopicPartition) -> None:
        with self._lock:
            if place in self._partitions:
                self._partitions[place].leader_id = None

    def forget_epochs(self, topic: str) -> None:
        with self._lock:
            for place, partition in self._partitions.items():
                if place.topic == topic:
                    partition.epoch = partition.leader_epoch = NO_EPOCH
                    partition.checked_epoch = NO_EPOCH

    @property
    def has_unled(self) -> bool:
        with self._lock:
            return any(one.leader_id is None for one in self._partitions.values())

    def _check(self, partition: PartitionState) -> None:
        if (
            partition.want is None
            and 0 <= partition.epoch < partition.leader_epoch
            and partition.checked_epoch < partition.leader_epoch
        ):
            self._move(partition, partition.offset, partition.epoch, Want.CHECK)

    # Where they stand

    def seek(self, place: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        with self._lock:
            self._move(self._partitions[place], offset, epoch, None)

    def require(self, place: TopicPartition, want: Want) -> None:
        """Find this out, whatever was known before."""
        with self._lock:
            self._require(self._partitions[place], want)

    def require_at(self, spot: Spot, want: Want) -> bool:
        """As `require`, if the partition still stands at this spot."""
        with self._lock:
            partition = self._current(spot)
            if partition is None:
                return False
            self._require(partition, want)
            return True

    def _require(self, partition: PartitionState, want: Want) -> None:
        self._move(partition, partition.offset, partition.epoch, want)

    def _move(self, partition: PartitionState, offset: int, epoch: int, want: Want | None) -> None:
        partition.version = self._next_version()
        partition.offset = offset
        partition.epoch = epoch
        partition.want = want
        partition.fetches.clear()
        self.has_room_news = True

    def wanted(self) -> list[Spot]:
        with self._lock:
            return [
                one.spot() for one in self._partitions.values() if one.want not in (None, Want.SEEK)
            ]

    def spots(self, places: Collection[TopicPartition]) -> list[Spot]:
        with self._lock:
            return [one.spot() for one in self._partitions.values() if one.place in places]

    def located(self, spot: Spot, offset: int, epoch: int = NO_EPOCH) -> None:
        """The answer to what was wanted at this spot."""
        with self._lock:
            partition = self._current(spot)
            if partition is not None:
                self._move(partition, offset, epoch, None)
                if spot.want is Want.CHECK:
                    partition.checked_epoch = spot.leader_epoch
                self._check(partition)

    def is_current(self, spot: Spot) -> bool:
        with self._lock:
            return self._current(spot) is not None

    def _current(self, spot: Spot) -> PartitionState | None:
        partition = self._partitions.get(spot.place)
        return partition if partition is not None and partition.version == spot.version else None

    def position(self, place: TopicPartition) -> int | None:
        """None as long as it is not known."""
        with self._lock:
            partition = self._partitions[place]
            return partition.offset if partition.want in (None, Want.CHECK) else None

    def delivered(
        self, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Position]:
        """How far records were handed out; partitions without a position are left out."""
        with self._lock:
            return {
                place: Position(one.offset, one.epoch)
                for place, one in self._partitions.items()
                if one.want in (None, Want.CHECK) and (places is None or place in places)
            }

    def pause(self, places: Iterable[TopicPartition]) -> None:
        with self._lock:
            for place in places:
                partition = self._partitions[place]
                partition.is_paused = True
                self._drop_what_rests(partition)

    def _drop_what_rests(self, partition: PartitionState) -> None:
        """Only so much is kept for partitions that may stay paused; it can be fetched again."""
        resting_size = sum(one.buffered_size for one in self._partitions.values() if one.is_paused)
        if partition.fetches and resting_size > self._buffered_size_max // _RESTING_SHARE:
            self._move(partition, partition.offset, partition.epoch, None)

    def resume(self, places: Iterable[TopicPartition]) -> None:
        with self._lock:
            for place in places:
                partition = self._partitions[place]
                partition.is_paused = False
                self._enqueue(partition)

    def hand_back(self, records: Iterable[Record]) -> None:
        """These were not delivered after all: they come again."""
        firsts: dict[TopicPartition, int] = {}
        for record in records:
            firsts.setdefault(record.place, record.offset)
        with self._lock:
            for place, offset in firsts.items():
                if place in self._partitions:
                    self._move(self._partitions[place], offset, NO_EPOCH, None)

    # What was fetched

    def fetchable(self) -> dict[int, list[Spot]]:
        """What may be asked of which broker; nothing while enough is waiting."""
        with self._lock:
            partitions = [one for one in self._partitions.values() if one.is_readable]
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
            partition = self._current(spot)
            if partition is None or partition.spot().offset != spot.offset:
                return
            partition.fetches.append(fetched)
            self._enqueue(partition)
            if partition.is_paused:
                self._drop_what_rests(partition)
            # Whoever got something is the last to be asked for next time.
            self._partitions[spot.place] = self._partitions.pop(spot.place)

    def _enqueue(self, partition: PartitionState) -> None:
        if partition.fetches and partition.is_readable and not partition.is_queued:
            partition.is_queued = True
            self._queue.append(partition)

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
                partition = self._queue[0]
                if not partition.fetches or not partition.is_readable:
                    self._queue.popleft().is_queued = False
                    continue
                fetched = partition.fetches[0]
                try:
                    piece = take(fetched, room)
                except SemelError:
                    # Fetched again, in case that it was damaged on its way.
                    self._move(partition, partition.offset, partition.epoch, None)
                    if pieces:
                        break
                    raise
                room -= count_of(piece)
                if count_of(piece):
                    pieces.append(piece)
                partition.offset, partition.epoch = fetched.offset, fetched.epoch
                if fetched.is_done:
                    partition.fetches.popleft()
                    self.has_room_news = True
                    self._queue.popleft().is_queued = False
                    self._enqueue(partition)
        return pieces
