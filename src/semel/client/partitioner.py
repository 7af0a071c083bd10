"""Which partition a key belongs to, by either of the hashes that Kafka's clients take by default.

murmur2   the Java client and all that is built on it, kafka-python, aiokafka, franz-go
crc32     librdkafka, so confluent-kafka and kcat; an empty key counts as none there

Whoever writes to one topic has to agree on it, or a key lies in two partitions.
"""

import enum
from collections.abc import Mapping
from zlib import crc32

from semel.errors import ConfigError

_SEED = 0x9747B28C
_MIX = 0x5BD1E995
_MASK = 0xFFFFFFFF


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
