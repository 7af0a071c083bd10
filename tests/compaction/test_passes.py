"""A pass, rule by rule: what stays of which batch, and what it looks like then."""

from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from semel.compaction.keys import KeyMap
from semel.compaction.passes import CompactionPass
from semel.compaction.rewriting import HORIZON_MS_MAX
from semel.errors import CorruptMessage
from semel.log.transactions import AbortedTransaction
from semel.records.batch import (
    DELETE_HORIZON,
    HEADER_SIZE,
    BatchHeader,
    read,
    seal,
    with_log_append_time,
)
from semel.records.compression import Compression
from semel.records.control import Marker, MarkerType, decode_marker, encode_marker
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import Buffer, Offset, ProducerId

NOW_MS = 1_000_000
RETENTION_MS = 500
HORIZON_MS = NOW_MS + RETENTION_MS
FAR = 10**9
ABORTED = [AbortedTransaction(ProducerId(5), Offset(0))]


class Pass:
    """The passes of one log, one after the other."""

    def __init__(self, *batches: Buffer, aborted: Sequence[AbortedTransaction] = ()) -> None:
        self.batches = [bytes(batch) for batch in batches]
        self.aborted = list(aborted)
        self.last: CompactionPass | None = None

    def run(
        self,
        now_ms: int = NOW_MS,
        *,
        known: int | None = None,
        high_watermark: int = FAR,
        last_stable_offset: int = FAR,
        retention_ms: int = RETENTION_MS,
    ) -> list[bytes]:
        """`known`: how many of the batches the key map knows; all of them otherwise."""
        keys = KeyMap(Offset(0), self.aborted)
        for batch in self.batches[:known]:
            keys.add(batch)
        self.last = CompactionPass(
            keys,
            self.aborted,
            now_ms=now_ms,
            delete_retention_ms=retention_ms,
            high_watermark=Offset(high_watermark),
            last_stable_offset=Offset(last_stable_offset),
        )
        self.batches = [bytes(batch) for batch in self.last.compact(self.batches)]
        self.aborted = self.last.aborted_left()
        return self.batches


def offsets(batches: list[bytes]) -> list[int]:
    return [record.offset for batch in batches for record in decode_batch(batch)]


def batch_of(base_offset: int, *pairs: tuple[bytes | None, bytes | None], codec: int = 0) -> bytes:
    records = [
        Record(key, value, 1_000 + number, (("h", b"%d" % number),))
        for number, (key, value) in enumerate(pairs)
    ]
    return encode_batch(records, base_offset=base_offset, leader_epoch=2, compression=codec)


def of_transaction(base_offset: int, *pairs: tuple[bytes, bytes | None]) -> bytes:
    return encode_batch(
        [Record(key, value, 1_000) for key, value in pairs],
        base_offset=base_offset,
        producer_id=5,
        producer_epoch=1,
        base_sequence=40,
        is_transactional=True,
    )


def marker(offset: int, kind: MarkerType) -> bytes:
    return encode_marker(Marker(kind, offset, 5, 1, 0, 2_000), leader_epoch=2)


# Which records stay


def test_the_newest_of_each_key_stays() -> None:
    log = Pass(batch_of(0, (b"a", b"1"), (b"b", b"1")), batch_of(2, (b"a", b"2"), (b"a", b"3")))
    assert offsets(log.run()) == [1, 3]


def test_what_the_key_map_does_not_know_stays() -> None:
    log = Pass(batch_of(0, (b"a", b"1")), batch_of(1, (b"a", b"2")), batch_of(2, (None, b"3")))
    assert offsets(log.run(known=1)) == [0, 1, 2]


def test_a_record_without_key_goes() -> None:
    assert offsets(Pass(batch_of(0, (None, b"1"), (b"", b"2"))).run()) == [1]


def test_a_batch_that_loses_nothing_is_the_same_to_the_bit() -> None:
    batches = [batch_of(0, (b"a", b"1"), codec=2), marker(1, MarkerType.COMMIT)]
    assert Pass(*batches).run(known=0) == [batches[0], Pass(batches[1]).run()[0]]
    assert Pass(batches[0]).run() == [batches[0]]


# Tombstones


def test_the_first_pass_that_keeps_a_tombstone_sets_its_horizon() -> None:
    before = batch_of(0, (b"a", b"1"), (b"b", None))
    log = Pass(before)
    [after] = log.run()
    header = read(after)
    assert header.delete_horizon_ms == HORIZON_MS
    assert header.replaced(
        length=0, checksum=0, base_timestamp_ms=1_000, attributes=header.attributes - DELETE_HORIZON
    ) == read(before).replaced(length=0, checksum=0)
    assert decode_batch(after) == decode_batch(before)
    for reader in (KafkaPythonBatch, AiokafkaBatch):
        assert [each.timestamp for each in reader(after)] == [1_000, 1_001]
    assert log.last is not None
    assert log.last.next_horizon_ms == HORIZON_MS


@pytest.mark.parametrize(("at_ms", "left"), [(HORIZON_MS - 1, [0, 1]), (HORIZON_MS, [0])])
def test_a_tombstone_goes_when_its_horizon_is_reached(at_ms: int, left: list[int]) -> None:
    log = Pass(batch_of(0, (b"a", b"1"), (b"b", None)))
    horizon = log.run()
    after = log.run(at_ms)
    assert offsets(after) == left
    # A horizon is not set twice, and what it once was stays when the tombstone is gone.
    assert read(after[0]).delete_horizon_ms == read(horizon[0]).delete_horizon_ms
    assert (after == horizon) == (len(left) == 2)


def test_a_tombstone_that_is_superseded_goes_at_once() -> None:
    assert offsets(Pass(batch_of(0, (b"a", None), (b"a", b"1"))).run()) == [1]


def test_a_tombstone_that_the_key_map_does_not_know_does_not_age() -> None:
    batch = batch_of(0, (b"b", None))
    assert Pass(batch).run(known=0) == [batch]


def test_a_horizon_leaves_the_times_of_the_log_alone() -> None:
    log = Pass(with_log_append_time(batch_of(0, (b"a", None)), 5_000))
    [after] = log.run()
    assert [each.timestamp_ms for each in decode_batch(after)] == [5_000]
    assert read(after).delete_horizon_ms == HORIZON_MS


def test_what_is_kept_for_ever_has_a_horizon_that_can_be_written() -> None:
    [after] = Pass(batch_of(0, (b"a", None))).run(retention_ms=2**63 - 1)
    assert read(after).delete_horizon_ms == HORIZON_MS_MAX
    assert [each.timestamp_ms for each in decode_batch(after)] == [1_000]


# Transactions


def test_aborted_records_go_and_their_entry_stays_until_a_pass_sees_none() -> None:
    log = Pass(
        batch_of(0, (b"x", b"1")),
        of_transaction(1, (b"a", b"1")),
        marker(2, MarkerType.ABORT),
        aborted=[AbortedTransaction(ProducerId(5), Offset(1))],
    )
    assert offsets(log.run()) == [0, 2]
    assert log.aborted == [AbortedTransaction(ProducerId(5), Offset(1))]
    log.run()
    assert log.aborted == []


def test_the_entry_of_a_transaction_that_ends_behind_the_pass_stays() -> None:
    ahead = AbortedTransaction(ProducerId(6), Offset(9))
    log = Pass(of_transaction(0, (b"a", b"1")), aborted=[*ABORTED, ahead])
    assert log.run() == []
    assert log.aborted == [*ABORTED, ahead]


def test_an_aborted_record_supersedes_nothing() -> None:
    log = Pass(
        batch_of(0, (b"a", b"1")),
        of_transaction(1, (b"a", b"2")),
        marker(2, MarkerType.ABORT),
        aborted=[AbortedTransaction(ProducerId(5), Offset(1))],
    )
    assert offsets(log.run()) == [0, 2]


@pytest.mark.parametrize("kind", MarkerType)
def test_a_marker_stays_while_a_batch_that_it_ended_is_there(kind: MarkerType) -> None:
    end = marker(1, kind)
    aborted = ABORTED if kind is MarkerType.ABORT else ()
    log = Pass(of_transaction(0, (b"a", b"1")), end, aborted=aborted)
    assert log.run()[-1] == end


@pytest.mark.parametrize("kind", MarkerType)
def test_a_marker_that_ends_nothing_any_more_gets_a_horizon_and_goes_with_it(
    kind: MarkerType,
) -> None:
    end = marker(1, kind)
    log = Pass(end)
    [kept] = log.run()
    assert read(kept).delete_horizon_ms == HORIZON_MS
    assert decode_marker(kept) == decode_marker(end)
    assert log.last is not None
    assert log.last.next_horizon_ms == HORIZON_MS
    assert log.run(HORIZON_MS - 1) == [kept]
    assert log.last.next_horizon_ms == HORIZON_MS
    assert log.run(HORIZON_MS) == []
    assert log.last.next_horizon_ms is None


# What is left of a batch


@pytest.mark.parametrize("end", ["high_watermark", "last_stable_offset"])
def test_a_batch_that_readers_must_come_to_the_end_of_stays_though_empty(end: str) -> None:
    lz4 = encode_batch(
        [Record(None, b"1", 1_000), Record(None, b"2", 2_000)],
        base_offset=7,
        leader_epoch=2,
        compression=Compression.LZ4,
        producer_id=5,
        producer_epoch=1,
        base_sequence=40,
    )
    log = Pass(lz4)
    [after] = log.run(**{end: 9})
    assert len(after) == HEADER_SIZE
    header = read(after)
    assert (header.base_offset, header.last_offset, header.record_count) == (7, 8, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 40)
    assert (header.leader_epoch, header.max_timestamp_ms) == (2, 2_000)
    assert decode_batch(after) == []
    assert log.run(**{end: 9}) == [after]
    assert log.run(**{end: 10}) == []


def test_an_empty_marker_at_the_end_is_a_control_batch_still() -> None:
    log = Pass(marker(1, MarkerType.COMMIT))
    log.run()
    [after] = log.run(HORIZON_MS, high_watermark=2)
    assert read(after).is_control
    assert decode_marker(after) is None
    assert log.run() == []


def _without_what_changes(header: BatchHeader) -> BatchHeader:
    return header.replaced(length=0, checksum=0, record_count=0, max_timestamp_ms=0)


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_that_loses_records_keeps_the_rest_of_itself(codec: Compression) -> None:
    records = [
        Record(b"a", b"1" * 50, 1_003),
        Record(b"b" * 70, b"2" * 200, 1_001, (("h", b"x"), ("n", None))),
        Record(b"a", b"3", 1_002),
        Record(None, b"4", 1_009),
    ]
    before = encode_batch(
        records,
        base_offset=70,
        leader_epoch=2,
        compression=codec,
        producer_id=5,
        producer_epoch=1,
        base_sequence=40,
    )
    [after] = Pass(before).run()
    assert decode_batch(after) == [decode_batch(before)[1], decode_batch(before)[2]]
    assert _without_what_changes(read(after)) == _without_what_changes(read(before))
    assert read(after).max_timestamp_ms == 1_002
    for reader in (KafkaPythonBatch, AiokafkaBatch):
        oracle = reader(after)
        assert oracle.validate_crc()
        assert [(each.offset, each.timestamp) for each in oracle] == [(71, 1_001), (72, 1_002)]


def test_records_that_cannot_be_read_stay_as_they_are() -> None:
    broken = bytearray(batch_of(1, (b"a", b"1"), (b"b", b"1")))
    broken[HEADER_SIZE] = 0x7F  # The size of the first record.
    seal(broken)
    log = Pass(batch_of(0, (b"a", b"0")), broken)
    assert log.run()[1] == broken
    assert offsets(log.batches[:1]) == [0]
    assert log.last is not None
    assert log.last.counts.batches_unreadable == 1


def test_a_wrong_checksum_is_damage() -> None:
    damaged = bytearray(batch_of(0, (b"a", b"1")))
    damaged[-1] ^= 1
    log = Pass()
    log.batches = [bytes(damaged)]
    with pytest.raises(CorruptMessage, match="checksum"):
        log.run(known=0)


def test_what_was_met_and_what_stays_is_counted() -> None:
    batches = [batch_of(0, (b"a", b"1"), (b"b", b"1")), batch_of(2, (b"a", b"2"))]
    batches += [batch_of(3, (b"a", b"3")), marker(4, MarkerType.COMMIT)]
    log = Pass(*batches)
    kept = log.run()
    assert log.last is not None
    counts = log.last.counts
    assert (counts.batches, counts.records) == (4, 5)
    assert counts.bytes == sum(map(len, batches))
    assert (counts.batches_kept, counts.records_kept) == (3, 3)
    assert counts.bytes_kept == sum(map(len, kept))
