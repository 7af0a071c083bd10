"""The newest offset of each key in the dirty part of a partition, within a bound of memory."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from semel.compaction.transactions import PassedTransactions
from semel.errors import CorruptMessage
from semel.log.transactions import AbortedTransaction
from semel.records.batch import BatchHeader, read, verify_checksum
from semel.records.scanning import check_end, plain_records, scan_record
from semel.types import Buffer, Offset

BUFFER_SIZE: Final = 128 * 2**20
"""Bytes. Kafka's default of log.cleaner.dedupe.buffer.size."""
LOAD_FACTOR: Final = 0.9
"""Kafka's default of log.cleaner.io.buffer.load.factor."""

# A short key is kept as it is, a longer one as a digest that is longer than any short key, so that
# neither is taken for the other. An object of bytes with either takes 64 bytes.
SHORT_KEY_SIZE_MAX: Final = 30
_DIGEST_SIZE: Final = 31

_KEY_SIZE: Final = 64
_OFFSET_SIZE: Final = 32
_SLOT_SIZE: Final = 20
"""Bytes of a dictionary's table per slot: two of three slots have an entry of 24, and all of them
an index of 4."""
_SLOT_COUNT_MIN: Final = 8


def key_count_max(buffer_size: int, load_factor: float = LOAD_FACTOR) -> int:
    """How many keys a dictionary holds in so many bytes, also while it grows.

    Its table has a power of two of slots, of which it fills two thirds. When these are filled it
    makes one of twice the size, and for a moment there are both: so it is full before it does, if
    both do not fit.
    """
    budget = int(buffer_size * load_factor)
    per_key = _KEY_SIZE + _OFFSET_SIZE
    slots = _SLOT_COUNT_MIN
    while True:
        filled = slots * 2 // 3
        if filled * per_key + slots * _SLOT_SIZE > budget:
            return max((budget - slots * _SLOT_SIZE) // per_key, 1)
        if filled * per_key + 3 * slots * _SLOT_SIZE > budget:
            return filled
        slots *= 2


def map_key(plain: bytes, begin: int, end: int) -> bytes:
    """As what the key that stands there is known in a map."""
    key = plain[begin:end]
    if end - begin > SHORT_KEY_SIZE_MAX:
        return blake2b(key, digest_size=_DIGEST_SIZE).digest()
    return key


class KeyMap:
    """Filled with the batches from the first dirty offset on, in order, until it takes no more.

    Law: it knows the newest offset of every key that has a committed record between the first
    dirty offset and `end_offset`, and nothing of what lies behind.
    """

    __slots__ = ("_key_count_max", "_transactions", "end_offset", "is_full", "newest")

    def __init__(
        self,
        first_dirty_offset: Offset,
        aborted: Iterable[AbortedTransaction],
        *,
        buffer_size: int = BUFFER_SIZE,
        load_factor: float = LOAD_FACTOR,
    ) -> None:
        """`aborted` are those with a batch or marker in what may be added."""
        self.newest: dict[bytes, int] = {}
        self.end_offset = first_dirty_offset
        """Exclusive. It is the first dirty offset of the next pass."""
        self.is_full = False
        self._key_count_max = key_count_max(buffer_size, load_factor)
        self._transactions = PassedTransactions(aborted)

    def __len__(self) -> int:
        return len(self.newest)

    def add(self, batch: Buffer) -> bool:
        """Take the next batch; False if it is full, and then the batch was not taken.

        The first one is taken whatever its size, as a pass that got nowhere would be made for ever.
        Raises CorruptMessage if its checksum is wrong.
        """
        header = read(batch)
        verify_checksum(batch, header)
        if header.is_control:
            self._transactions.is_discardable(header, batch)
        elif not self._transactions.is_aborted(header):
            found = _newest_in(header, batch)
            if self._has_no_room_for(found):
                self.is_full = True
                return False
            self.newest.update(found)
        self.end_offset = Offset(header.last_offset + 1)
        return True

    def _has_no_room_for(self, found: dict[bytes, int]) -> bool:
        newest = self.newest
        if not newest or len(newest) + len(found) <= self._key_count_max:
            return False
        new_count = 0
        for key in found:
            if key not in newest:
                new_count += 1
        return len(newest) + new_count > self._key_count_max


def _newest_in(header: BatchHeader, batch: Buffer) -> dict[bytes, int]:
    """By key, of one batch. Nothing if its records cannot be read: it stays as it is then, and what
    it seems to say of a key must not take away what can be read."""
    found: dict[bytes, int] = {}
    base_offset = header.base_offset
    delta_max = header.last_offset_delta
    try:
        plain = plain_records(header, batch)
        position = 0
        delta = -1
        for _ in range(header.record_count):
            position, _, delta, key_from, key_until, _ = scan_record(
                plain, position, delta + 1, delta_max
            )
            if key_until >= key_from:
                found[map_key(plain, key_from, key_until)] = base_offset + delta
        check_end(plain, position)
    except CorruptMessage:
        return {}
    return found
