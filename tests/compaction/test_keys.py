"""The key map: what it knows, how far, and in how much memory."""

import tracemalloc

import pytest

from semel.compaction.keys import SHORT_KEY_SIZE_MAX, KeyMap, key_count_max, map_key
from semel.errors import CorruptMessage
from semel.log.transactions import AbortedTransaction
from semel.records.batch import HEADER_SIZE, seal
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, encode_batch
from semel.types import Offset, ProducerId

ROOM_FOR_THREE = 500
"""Bytes of a map that has room for three keys."""


def batch_of(base_offset: int, *keys: bytes | None, producer_id: int = -1) -> bytes:
    return encode_batch(
        [Record(key, b"v", 1) for key in keys],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=min(producer_id, 0),
        is_transactional=producer_id >= 0,
    )


def test_it_knows_the_newest_offset_of_each_key() -> None:
    keys = KeyMap(Offset(0), ())
    assert keys.add(batch_of(0, b"a", b"b", None, b"a"))
    assert keys.add(batch_of(4, b"b"))
    assert keys.newest == {b"a": 3, b"b": 4}
    assert keys.end_offset == 5


def test_without_a_dirty_batch_it_ends_where_it_begins() -> None:
    assert KeyMap(Offset(7), ()).end_offset == 7


def test_it_steps_over_markers_and_what_was_aborted_and_nothing_else_of_that_producer() -> None:
    abort = Marker(MarkerType.ABORT, 2, 1, 0, 0, 1)
    keys = KeyMap(Offset(0), [AbortedTransaction(ProducerId(1), Offset(0))])
    assert keys.add(batch_of(0, b"a", producer_id=1))
    assert keys.add(batch_of(1, b"a", producer_id=2))
    assert keys.add(encode_marker(abort, leader_epoch=0))
    assert keys.add(batch_of(3, b"b", producer_id=1))
    assert keys.newest == {b"a": 1, b"b": 3}
    assert keys.end_offset == 4


def test_full_it_is_complete_up_to_the_batch_that_it_did_not_take() -> None:
    keys = KeyMap(Offset(0), (), buffer_size=ROOM_FOR_THREE)
    assert keys.add(batch_of(0, b"a", b"b"))
    assert not keys.add(batch_of(2, b"c", b"d"))
    assert keys.is_full
    assert keys.newest == {b"a": 0, b"b": 1}
    assert keys.end_offset == 2


def test_what_it_knows_already_needs_no_room() -> None:
    keys = KeyMap(Offset(0), (), buffer_size=ROOM_FOR_THREE)
    assert keys.add(batch_of(0, b"a", b"b"))
    assert keys.add(batch_of(2, b"a", b"b", b"c"))
    assert not keys.is_full
    assert len(keys) == 3


def test_the_first_batch_has_room_however_many_keys_it_has() -> None:
    keys = KeyMap(Offset(0), (), buffer_size=0)
    assert keys.add(batch_of(0, *(b"%d" % number for number in range(100))))
    assert not keys.add(batch_of(100, b"more"))


@pytest.mark.parametrize("size", [0, 1, SHORT_KEY_SIZE_MAX, SHORT_KEY_SIZE_MAX + 1, 1000])
def test_a_key_is_known_by_as_many_bytes_as_a_short_key_at_most(size: int) -> None:
    known = map_key(b"<" + b"k" * size + b">", 1, 1 + size)
    assert len(known) <= SHORT_KEY_SIZE_MAX + 1
    # No key that is held as it is can be the digest of another.
    assert (len(known) > SHORT_KEY_SIZE_MAX) == (size > SHORT_KEY_SIZE_MAX)


@pytest.mark.parametrize("buffer_size", [2**16, 2**18, 3 * 2**18, 2**20, 5 * 2**20])
def test_its_memory_is_bounded(buffer_size: int) -> None:
    count = key_count_max(buffer_size)
    batches = [
        batch_of(base, *(b"%040d" % number for number in range(base, base + 100)))
        for base in range(0, count, 100)
    ]
    tracemalloc.start()
    keys = KeyMap(Offset(0), (), buffer_size=buffer_size)
    for batch in batches:
        keys.add(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count - 100 < len(keys) <= count
    assert buffer_size * 0.5 < peak < buffer_size


def test_records_that_cannot_be_read_supersede_nothing() -> None:
    broken = bytearray(batch_of(1, b"a", b"b"))
    broken[HEADER_SIZE + 9] = 0x7E  # The size of the second record.
    seal(broken)
    keys = KeyMap(Offset(0), ())
    assert keys.add(batch_of(0, b"a"))
    assert keys.add(broken)
    assert keys.newest == {b"a": 0}
    assert keys.end_offset == 3


def test_a_wrong_checksum_is_damage() -> None:
    damaged = bytearray(batch_of(0, b"a"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage, match="checksum"):
        KeyMap(Offset(0), ()).add(damaged)
