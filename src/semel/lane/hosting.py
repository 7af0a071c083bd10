"""Which partitions lie in a lane, by their topics and by their numbers.

A topic may have very many, and most of them may never be written to. So what is kept of a topic is
how its indexes lead to numbers. Law: a partition that is not made equals one that was never
written; it is made when it is first asked for, and nobody can tell when that was.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from semel.log.partition import Partition
from semel.types import TopicPartition

CHUNK_SHIFT: Final = 6
"""Numbers that differ in no other bits stand in one chunk."""


class PartitionRange(NamedTuple):
    """Partitions of a topic whose indexes are evenly spaced and whose numbers are neighbours."""

    first_number: int
    topic: str
    indexes: range

    @property
    def numbers(self) -> range:
        return range(self.first_number, self.first_number + len(self.indexes))

    def number_of(self, index: int) -> int:
        return self.first_number + self.indexes.index(index)


class Hosting:
    def __init__(self) -> None:
        self.made: dict[int, Partition] = {}
        """By number, those that were ever asked for."""
        self.made_by_topic: dict[str, dict[int, Partition]] = {}
        """The same, by topic and index."""
        self._chunks: dict[int, list[int]] = {}
        """The same numbers, rising, so that who goes through them all need not copy nor sort them
        at once. Law: there is no empty one."""
        self._chunk_keys: list[int] = []
        """Rising."""
        self.next_number = 0
        """Numbers are never used again."""
        self.partition_count = 0
        """Made or not."""
        self._by_topic: dict[str, list[PartitionRange]] = {}
        self._by_number: list[PartitionRange] = []

    def host(self, topic: str, indexes: Sequence[int], first_number: int) -> None:
        """They take the numbers from there on."""
        for evenly in _evenly_spaced(indexes):
            each = PartitionRange(first_number, topic, evenly)
            self._by_topic.setdefault(topic, []).append(each)
            insort(self._by_number, each)
            first_number += len(evenly)
            self.partition_count += len(evenly)
        self.next_number = max(self.next_number, first_number)

    def ranges(self, topic: str) -> tuple[PartitionRange, ...]:
        """In the order in which they were hosted."""
        return tuple(self._by_topic.get(topic, ()))

    def count(self, topic: str) -> int:
        return sum(len(each.indexes) for each in self._by_topic.get(topic, ()))

    def has(self, topic: str, index: int) -> bool:
        return any(index in each.indexes for each in self._by_topic.get(topic, ()))

    def partition(self, topic: str, index: int) -> Partition | None:
        """None if it does not lie here."""
        made = self.made_by_topic.get(topic)
        if made is not None:
            found = made.get(index)
            if found is not None:
                return found
        for each in self._by_topic.get(topic, ()):
            if index in each.indexes:
                return self._make(topic, index, each.number_of(index))
        return None

    def numbered(self, number: int) -> Partition | None:
        """None if there is no such number."""
        found = self.made.get(number)
        if found is not None:
            return found
        at = bisect_right(self._by_number, number, key=_first_number) - 1
        if at < 0 or number not in self._by_number[at].numbers:
            return None
        each = self._by_number[at]
        return self._make(each.topic, each.indexes[number - each.first_number], number)

    def _make(self, topic: str, index: int, number: int) -> Partition:
        partition = Partition(TopicPartition(topic, index), number)
        self.made[number] = partition
        self.made_by_topic.setdefault(topic, {})[index] = partition
        key = number >> CHUNK_SHIFT
        chunk = self._chunks.get(key)
        if chunk is None:
            self._chunks[key] = [number]
            insort(self._chunk_keys, key)
        else:
            insort(chunk, number)
        return partition

    def made_by_number(self) -> Iterator[Partition]:
        """Those that were ever asked for, by rising number.

        Others may be made and dropped meanwhile: none is given that is not there when its turn
        comes. Another thread may ask as well.
        """
        key = -1
        while True:
            at = bisect_right(self._chunk_keys, key)
            some = self._chunk_keys[at : at + 1]
            if not some:
                return
            key = some[0]
            for number in self._chunks.get(key, ())[:]:
                partition = self.made.get(number)
                if partition is not None:
                    yield partition

    def drop(self, topic: str) -> list[Partition]:
        """All of a topic; gives those that were made."""
        for each in self._by_topic.pop(topic, ()):
            del self._by_number[
                bisect_right(self._by_number, each.first_number, key=_first_number) - 1
            ]
            self.partition_count -= len(each.indexes)
            self._drop_numbers(each.numbers)
        gone = list(self.made_by_topic.pop(topic, {}).values())
        made = self.made
        for partition in gone:
            del made[partition.number]
        return gone

    def _drop_numbers(self, numbers: range) -> None:
        """Chunk by chunk: there may be very many."""
        first = bisect_left(self._chunk_keys, numbers[0] >> CHUNK_SHIFT)
        stop = bisect_right(self._chunk_keys, numbers[-1] >> CHUNK_SHIFT)
        left = []
        for key in self._chunk_keys[first:stop]:
            kept = [number for number in self._chunks[key] if number not in numbers]
            if kept:
                self._chunks[key] = kept
                left.append(key)
            else:
                del self._chunks[key]
        self._chunk_keys[first:stop] = left


def _first_number(each: PartitionRange) -> int:
    return each.first_number


def _evenly_spaced(indexes: Sequence[int]) -> Iterator[range]:
    """Those that rise, in as few pieces as they are given in."""
    if isinstance(indexes, range):
        if indexes:
            yield indexes
        return
    start = 0
    while start < len(indexes):
        first = indexes[start]
        step = indexes[start + 1] - first if start + 1 < len(indexes) else 1
        end = start + 1
        while end < len(indexes) and indexes[end] == first + step * (end - start):
            end += 1
        yield range(first, first + step * (end - start), step)
        start = end
