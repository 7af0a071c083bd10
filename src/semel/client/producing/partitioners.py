"""Which partition a record goes to when its sender does not say.

By key, with either of the hashes that Kafka's clients take; without one, to one partition for as
long as a batch takes to fill, and then to the next: few full batches instead of many small ones.

murmur2   the Java client and all that is built on it, kafka-python, aiokafka, franz-go
crc32     librdkafka, so confluent-kafka and kcat; an empty key counts as none there

Whoever writes to one topic has to agree on it, or a key lies in two partitions.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Protocol
from zlib import crc32

from semel.errors import ConfigError

_SEED = 0x9747B28C
_MIX = 0x5BD1E995
_MASK = 0xFFFFFFFF

Choose = Callable[[str, bytes | None, int], int]
"""From topic, key and number of partitions to a partition."""


class KeyHash(enum.Enum):
    MURMUR2 = "murmur2"
    CRC32 = "crc32"

    def counts(self, key: bytes | None) -> bool:
        """Whether this is a key that decides where its record goes."""
        return key is not None if self is KeyHash.MURMUR2 else bool(key)

    def partition_of(self, key: bytes, partition_count: int) -> int:
        if self is KeyHash.MURMUR2:
            return (murmur2(key) & 0x7FFFFFFF) % partition_count
        return crc32(key) % partition_count


KEY_HASHES: Mapping[str, KeyHash] = {
    "murmur2": KeyHash.MURMUR2,
    "crc32": KeyHash.CRC32,
    # As librdkafka calls them.
    "murmur2_random": KeyHash.MURMUR2,
    "consistent_random": KeyHash.CRC32,
}


def parse_key_hash(name: str) -> KeyHash:
    if name not in KEY_HASHES:
        raise ConfigError(f"{name!r} is not a partitioner: give {', '.join(KEY_HASHES)}")
    return KEY_HASHES[name]


def murmur2(key: bytes) -> int:
    """The 32-bit hash that Kafka's Java client takes of a key, as an unsigned number."""
    size = len(key)
    digest = (_SEED ^ size) & _MASK
    whole = size & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        digest = digest * _MIX & _MASK ^ word
    if size > whole:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * _MIX & _MASK
    digest = (digest ^ digest >> 13) * _MIX & _MASK
    return digest ^ digest >> 15


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
