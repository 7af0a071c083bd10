"""Which partition a key belongs to: Kafka's murmur2, so that every client agrees."""

_SEED = 0x9747B28C
_MIX = 0x5BD1E995
_MASK = 0xFFFFFFFF


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


def partition_of(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
