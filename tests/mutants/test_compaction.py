"""The rules of compaction are left out one by one; the properties must find each absence."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from compaction import test_properties
from semel.compaction import keys, passes, rewriting
from semel.compaction.keys import KeyMap
from semel.compaction.passes import CompactionPass
from semel.compaction.transactions import PassedTransactions
from semel.errors import CorruptMessage
from semel.records.batch import BatchHeader, read
from semel.records.records import decode_batch
from semel.records.scanning import plain_records, scan_record
from semel.types import NO_PRODUCER_ID, Offset
from support.compiled import plain_python

Patch = pytest.MonkeyPatch


# What the key map knows


def aborted_records_are_in_the_map(patch: Patch) -> None:
    class Blind(PassedTransactions):
        def is_aborted(self, header: BatchHeader) -> bool:
            return False

    patch.setattr(keys, "PassedTransactions", Blind)


def markers_are_in_the_map(patch: Patch) -> None:
    add = KeyMap.add

    def greedy(self: KeyMap, batch: bytes) -> bool:
        taken = add(self, batch)
        for record in decode_batch(batch):
            self.newest[b"" if record.key is None else record.key[:0]] = record.offset
        return taken

    patch.setattr(KeyMap, "add", greedy)


def a_full_map_calls_itself_complete(patch: Patch) -> None:
    add = KeyMap.add

    def proud(self: KeyMap, batch: bytes) -> bool:
        taken = add(self, batch)
        self.end_offset = Offset(read(batch).last_offset + 1)
        return taken

    patch.setattr(KeyMap, "add", proud)


def a_full_map_never_begins(patch: Patch) -> None:
    def strict(self: KeyMap, found: dict[bytes, int]) -> bool:
        return len(self.newest | found) > self._key_count_max

    patch.setattr(KeyMap, "_has_no_room_for", strict)


def a_long_key_is_cut(patch: Patch) -> None:
    def cut(plain: bytes, begin: int, end: int) -> bytes:
        return plain[begin : min(end, begin + 30)]

    patch.setattr(keys, "map_key", cut)
    patch.setattr(passes, "map_key", cut)


# Which records stay


def the_newest_goes_as_well(patch: Patch) -> None:
    add = KeyMap.add

    def ahead(self: KeyMap, batch: bytes) -> bool:
        taken = add(self, batch)
        for record in decode_batch(batch):
            if record.key in self.newest and self.newest[record.key] == record.offset:
                self.newest[record.key] += 1
        return taken

    patch.setattr(KeyMap, "add", ahead)


def what_the_map_does_not_know_goes(patch: Patch) -> None:
    _begun(patch, _end_offset=2**60)


def records_without_key_stay(patch: Patch) -> None:
    scan = scan_record

    def keyed(*arguments: Any) -> Any:
        end, time, delta, key_from, key_until, value_size = scan(*arguments)
        if key_until < key_from:
            return end, time, delta, 0, len(arguments[0]), value_size
        return end, time, delta, key_from, key_until, value_size

    patch.setattr(passes, "scan_record", keyed)


# Tombstones


def tombstones_go_at_once(patch: Patch) -> None:
    patch.setattr(BatchHeader, "delete_horizon_ms", property(lambda header: 0))


def tombstones_stay_for_ever(patch: Patch) -> None:
    _begun(patch, _now_ms=0)


def each_pass_sets_the_horizon_anew(patch: Patch) -> None:
    patch.setattr(BatchHeader, "delete_horizon_ms", property(lambda header: None))


def a_horizon_is_reached_a_millisecond_late(patch: Patch) -> None:
    begin = CompactionPass.__init__

    def late(self: CompactionPass, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self._now_ms -= 1

    patch.setattr(CompactionPass, "__init__", late)


def a_horizon_changes_the_times_of_records(patch: Patch) -> None:
    def unshifted(header: BatchHeader, plain: bytes, horizon_ms: int) -> tuple[BatchHeader, bytes]:
        due, _ = rewriting.with_horizon(header, plain, horizon_ms)
        return due, plain

    patch.setattr(passes, "with_horizon", unshifted)


def a_tombstone_ages_before_the_map_knows_it(patch: Patch) -> None:
    compacted = CompactionPass._compacted

    def early(self: CompactionPass, header: BatchHeader, batch: bytes) -> Any:
        kept = compacted(self, header, batch)
        if (
            kept is batch
            and header.delete_horizon_ms is None
            and any(record.value is None for record in decode_batch(batch))
        ):
            return self._with_horizon(header, plain_records(header, batch))
        return kept

    patch.setattr(CompactionPass, "_compacted", early)


# Transactions


def aborted_records_stay(patch: Patch) -> None:
    class Blind(PassedTransactions):
        def is_aborted(self, header: BatchHeader) -> bool:
            super().is_aborted(header)
            return False

    patch.setattr(passes, "PassedTransactions", Blind)


def the_entry_of_an_aborted_transaction_stays(patch: Patch) -> None:
    class Keeping(PassedTransactions):
        def __init__(self, aborted: Any) -> None:
            self.given = list(aborted)
            super().__init__(self.given)

        def aborted_left(self) -> Any:
            return self.given

    patch.setattr(passes, "PassedTransactions", Keeping)


def an_entry_goes_before_its_marker_is_met(patch: Patch) -> None:
    patch.setattr(PassedTransactions, "aborted_left", lambda self: self._left)


def an_aborted_transaction_never_ends(patch: Patch) -> None:
    discardable = PassedTransactions.is_discardable

    def endless(self: PassedTransactions, header: BatchHeader, batch: bytes) -> bool:
        aborted = self._aborted.get(header.producer_id)
        answer = discardable(self, header, batch)
        if aborted is not None:
            self._aborted[header.producer_id] = aborted
        return answer

    patch.setattr(PassedTransactions, "is_discardable", endless)


def a_marker_goes_before_its_records(patch: Patch) -> None:
    discardable = PassedTransactions.is_discardable

    def hasty(self: PassedTransactions, header: BatchHeader, batch: bytes) -> bool:
        discardable(self, header, batch)
        return True

    patch.setattr(PassedTransactions, "is_discardable", hasty)


def a_marker_goes_without_a_horizon(patch: Patch) -> None:
    def at_once(self: CompactionPass, header: BatchHeader, batch: bytes) -> Any:
        if self._transactions.is_discardable(header, batch):
            return self._without_records(header, batch)
        return batch

    patch.setattr(CompactionPass, "_marker", at_once)


def a_marker_stays_for_ever(patch: Patch) -> None:
    def kept(self: CompactionPass, header: BatchHeader, batch: bytes) -> Any:
        self._transactions.is_discardable(header, batch)
        return batch

    patch.setattr(CompactionPass, "_marker", kept)


def an_earlier_commit_keeps_a_later_marker(patch: Patch) -> None:
    class Remembering(PassedTransactions):
        def is_discardable(self, header: BatchHeader, batch: Any) -> bool:
            before = set(self._committed)
            answer = super().is_discardable(header, batch)
            self._committed |= before
            return answer

    patch.setattr(passes, "PassedTransactions", Remembering)


# What a batch is afterwards


def the_last_batch_goes_when_empty(patch: Patch) -> None:
    patch.setattr(CompactionPass, "_without_records", lambda *_: None)


def only_the_high_watermark_is_kept_in_reach(patch: Patch) -> None:
    _begun(patch, _last_stable_offset=-1)


def offsets_close_up(patch: Patch) -> None:
    def closed(header: BatchHeader, record_count: int, max_timestamp_ms: int) -> BatchHeader:
        reduced = rewriting.with_records(header, record_count, max_timestamp_ms)
        return reduced.replaced(last_offset_delta=record_count - 1)

    patch.setattr(passes, "with_records", closed)


def the_producer_is_forgotten(patch: Patch) -> None:
    def anonymous(header: BatchHeader, plain: bytes) -> bytes:
        return rewriting.packed(header.replaced(producer_id=NO_PRODUCER_ID), plain)

    patch.setattr(passes, "packed", anonymous)


def the_codec_is_lost(patch: Patch) -> None:
    def unpacked(header: BatchHeader, plain: bytes) -> bytes:
        return rewriting.packed(header.replaced(attributes=header.attributes & ~7), plain)

    patch.setattr(passes, "packed", unpacked)


def the_latest_time_is_that_of_a_record_that_went(patch: Patch) -> None:
    def unmoved(header: BatchHeader, record_count: int, _: int) -> BatchHeader:
        return header.replaced(record_count=record_count)

    patch.setattr(passes, "with_records", unmoved)


def _begun(patch: Patch, **fields: int) -> None:
    """Have each pass begin with these of its fields set so."""
    begin = CompactionPass.__init__

    def begun(self: CompactionPass, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        for name, value in fields.items():
            setattr(self, name, value)

    patch.setattr(CompactionPass, "__init__", begun)


PLANTS: list[Callable[[Patch], None]] = [
    aborted_records_are_in_the_map,
    markers_are_in_the_map,
    a_full_map_calls_itself_complete,
    a_full_map_never_begins,
    a_long_key_is_cut,
    the_newest_goes_as_well,
    what_the_map_does_not_know_goes,
    records_without_key_stay,
    tombstones_go_at_once,
    tombstones_stay_for_ever,
    each_pass_sets_the_horizon_anew,
    a_horizon_is_reached_a_millisecond_late,
    a_horizon_changes_the_times_of_records,
    a_tombstone_ages_before_the_map_knows_it,
    aborted_records_stay,
    the_entry_of_an_aborted_transaction_stays,
    an_entry_goes_before_its_marker_is_met,
    an_aborted_transaction_never_ends,
    a_marker_goes_before_its_records,
    a_marker_goes_without_a_horizon,
    a_marker_stays_for_ever,
    an_earlier_commit_keeps_a_later_marker,
    the_last_batch_goes_when_empty,
    only_the_high_watermark_is_kept_in_reach,
    offsets_close_up,
    the_producer_is_forgotten,
    the_codec_is_lost,
    the_latest_time_is_that_of_a_record_that_went,
]


@settings(
    max_examples=test_properties.EXAMPLES,
    phases=[Phase.generate],
    database=None,
    report_multiple_bugs=False,
)
@given(test_properties.steps)
def look(script: test_properties.Script) -> None:
    """As the property does; but once a bug is seen, no simpler case is looked for."""
    test_properties.run(script)


@plain_python
@pytest.mark.parametrize("plant", PLANTS, ids=[plant.__name__ for plant in PLANTS])
def test_a_planted_bug_dies(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, CorruptMessage)):
        look()
