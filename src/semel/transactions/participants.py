"""The partitions that take part in a transaction, as a set that grows at little cost.

Each partition that joins makes a new value, with all that joined before, and each value is written
whole. So what a value costs besides its bytes counts for as many as there are: indexes lie packed
by topic and in order, as they are written, and are copied at once instead of one by one.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set
from typing import Any, Final

from semel.types import TopicPartition
from semel.wire.primitives import uvarint

_NO_TAGS: Final = b"\x00"

INSERTED_MAX: Final = 8
"""Indexes. More at once are sorted together with those that are there."""


class Participants(Set[TopicPartition]):
    """Changed by nobody once it is made. Equal to every set with the same partitions."""

    __slots__ = ("_by_topic", "_count", "_packed", "names_size")

    def __init__(self, by_topic: "dict[str, array[int]]", count: int, names_size: int) -> None:
        self._by_topic = by_topic
        self._count = count
        self._packed: bytes | None = None
        self.names_size = names_size
        """Characters of the names of all topics."""

    @classmethod
    def _from_iterable(cls, partitions: Iterable[TopicPartition]) -> "Participants":  # type: ignore[override]
        return NOBODY.joined(partitions)

    def __contains__(self, partition: object) -> bool:
        if not isinstance(partition, tuple):
            return False
        topic, index = partition
        indexes = self._by_topic.get(topic)
        return indexes is not None and _has(indexes, index)

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, indexes in self._by_topic.items():
            for index in indexes:
                yield TopicPartition(topic, index)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Participants):
            return self._by_topic == other._by_topic
        return super().__eq__(other)

    # Compiled, a class that says when it is equal inherits no other comparison.

    def __le__(self, other: Set[Any]) -> bool:
        return super().__le__(other)

    def __lt__(self, other: Set[Any]) -> bool:
        return super().__lt__(other)

    def __ge__(self, other: Set[Any]) -> bool:
        return super().__ge__(other)

    def __gt__(self, other: Set[Any]) -> bool:
        return super().__gt__(other)

    def __hash__(self) -> int:
        return self._hash()

    def __repr__(self) -> str:
        return f"Participants({sorted(self)})"

    @property
    def topic_count(self) -> int:
        return len(self._by_topic)

    def has_all(self, partitions: Iterable[TopicPartition]) -> bool:
        for topic, index in partitions:
            indexes = self._by_topic.get(topic)
            if indexes is None or not _has(indexes, index):
                return False
        return True

    def has_topic(self, topic: str) -> bool:
        return topic in self._by_topic

    def in_order(self) -> tuple[TopicPartition, ...]:
        """By topic and index."""
        by_topic = self._by_topic
        # Their own constructor is interpreted, also where all else is compiled.
        return tuple(
            [
                tuple.__new__(TopicPartition, (topic, index))
                for topic in sorted(by_topic)
                for index in by_topic[topic]
            ]
        )

    def packed(self) -> bytes:
        """As a compact array of topics, each with a compact array of indexes: made once, as the
        values of one transaction have the same participants."""
        if self._packed is None:
            parts = [uvarint(len(self._by_topic) + 1)]
            for topic in sorted(self._by_topic):
                name, indexes = topic.encode(), self._by_topic[topic][:]
                if _IS_LITTLE:
                    indexes.byteswap()
                parts += (uvarint(len(name) + 1), name, uvarint(len(indexes) + 1))
                parts += (indexes.tobytes(), _NO_TAGS)
            self._packed = b"".join(parts)
        return self._packed

    def joined(self, partitions: Iterable[TopicPartition]) -> "Participants":
        """With these as well."""
        new: dict[str, set[int]] = {}
        for topic, index in partitions:
            indexes = new.get(topic)
            if indexes is None:
                new[topic] = {index}
            else:
                indexes.add(index)
        by_topic, count, names_size = self._by_topic.copy(), self._count, self.names_size
        for topic, indexes in new.items():
            before = by_topic.get(topic)
            if before is None:
                after = array("i", sorted(indexes))
                names_size += len(topic)
                count += len(after)
            else:
                after = _merged(before, indexes)
                count += len(after) - len(before)
            by_topic[topic] = after
        return Participants(by_topic, count, names_size)

    def without(self, topic: str) -> "Participants":
        left = self._by_topic.copy()
        gone = left.pop(topic, None)
        if gone is None:
            return self
        return Participants(left, self._count - len(gone), self.names_size - len(topic))


def _has(indexes: "array[int]", index: int) -> bool:
    at = bisect_left(indexes, index)
    return at < len(indexes) and indexes[at] == index


def _merged(before: "array[int]", indexes: set[int]) -> "array[int]":
    if len(indexes) > INSERTED_MAX:
        return array("i", sorted(indexes.union(before)))
    after = before[:]
    for index in indexes:
        at = bisect_left(after, index)
        if at == len(after) or after[at] != index:
            after.insert(at, index)
    return after


_IS_LITTLE: Final = array("i", [1]).tobytes()[0] == 1
assert array("i").itemsize == 4, "an index has 32 bits"

NOBODY: Final = Participants({}, 0, 0)


def participants(partitions: Set[TopicPartition]) -> Participants:
    """Those of a value, which may have been given as any set."""
    return partitions if isinstance(partitions, Participants) else NOBODY.joined(partitions)
