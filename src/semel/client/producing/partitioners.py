"""Which partition a record goes to when its sender does not say.

By key, with either of the hashes that Kafka's clients take; without one, to one partition for as
long as a batch takes to fill, and then to the next: few full batches instead of many small ones.
"""

from collections.abc import Callable
from typing import Protocol

from semel.client.partitioner import KEY_HASHES, KeyHash
from semel.errors import ConfigError

Choose = Callable[[str, bytes | None, int], int]
"""From topic, key and number of partitions to a partition."""


class Partitioner(Protocol):
    def choose(self, topic: str, key: bytes | None, size: int, partition_count: int) -> int:
        """The partition of a record of about `size` bytes."""
        ...


class ByKey:
    """The hash of the key; sticky without a key."""

    def __init__(self, key_hash: KeyHash, sticky_size: int, first: int) -> None:
        self._key_hash = key_hash
        self._sticky_size = sticky_size
        self._first = first
        self._stuck: dict[str, list[int]] = {}
        """For each topic the partition, and how much still fits into a batch of it."""

    def choose(self, topic: str, key: bytes | None, size: int, partition_count: int) -> int:
        if key is not None and self._key_hash.counts(key):
            return self._key_hash.partition_of(key, partition_count)
        stuck = self._stuck.get(topic)
        if stuck is None:
            stuck = self._stuck[topic] = [self._first, self._sticky_size]
        elif stuck[1] <= 0:
            stuck[0] += 1
            stuck[1] = self._sticky_size
        stuck[1] -= size
        return stuck[0] % partition_count


class RoundRobin:
    """Each partition in turn, whatever the key."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._next: dict[str, int] = {}

    def choose(self, topic: str, key: bytes | None, size: int, partition_count: int) -> int:
        number = self._next.get(topic, self._first)
        self._next[topic] = number + 1
        return number % partition_count


class ByFunction:
    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    def choose(self, topic: str, key: bytes | None, size: int, partition_count: int) -> int:
        return self._choose(topic, key, partition_count)


def make_partitioner(how: str | Choose, sticky_size: int, first: int) -> Partitioner:
    """`first` is where it begins: at random, or every short life would use the same partition."""
    if callable(how):
        return ByFunction(how)
    if how in KEY_HASHES:
        return ByKey(KEY_HASHES[how], sticky_size, first)
    if how == "round_robin":
        return RoundRobin(first)
    names = ", ".join((*KEY_HASHES, "round_robin"))
    raise ConfigError(f"{how!r} is not a partitioner: give {names} or a function")
