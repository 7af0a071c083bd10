"""How far a read_committed reader may go in a partition, and what it must step over."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from semel.log.snapshot import PartitionTransactionsSnapshot
from semel.log.transactions import Aborted, AbortedIndex, AbortedTransaction, PartitionTransactions
from semel.types import Offset, ProducerId

A, B, C = ProducerId(1), ProducerId(2), ProducerId(3)


def at(offset: int) -> Offset:
    return Offset(offset)


def test_without_transactions_the_last_stable_offset_is_the_high_watermark() -> None:
    transactions = PartitionTransactions()
    assert transactions.advance_high_watermark(at(7)) == 7
    assert transactions.last_stable_offset == 7


def test_it_stops_at_the_first_offset_of_the_earliest_open_transaction() -> None:
    transactions = PartitionTransactions()
    transactions.wrote(A, at(3))
    transactions.wrote(B, at(5))
    transactions.wrote(A, at(6))
    assert transactions.advance_high_watermark(at(9)) == 3
    assert (transactions.first_offset(A), transactions.first_offset(B)) == (3, 5)
    transactions.ended(A, at(9), committed=True)
    assert transactions.advance_high_watermark(at(10)) == 5
    transactions.ended(B, at(10), committed=False)
    assert transactions.advance_high_watermark(at(11)) == 11


def test_it_does_not_move_before_the_marker_is_durable() -> None:
    transactions = PartitionTransactions()
    transactions.wrote(A, at(3))
    transactions.advance_high_watermark(at(5))
    transactions.ended(A, at(5), committed=True)
    assert transactions.last_stable_offset == 3
    assert transactions.advance_high_watermark(at(5)) == 3
    assert transactions.advance_high_watermark(at(6)) == 6


def test_markers_that_become_durable_one_by_one_free_one_transaction_each() -> None:
    transactions = PartitionTransactions()
    transactions.wrote(A, at(0))
    transactions.wrote(B, at(1))
    transactions.ended(B, at(2), committed=True)
    transactions.ended(A, at(3), committed=True)
    assert [transactions.advance_high_watermark(at(high)) for high in (2, 3, 4)] == [0, 0, 4]


def test_a_transaction_that_is_not_durable_at_all_does_not_matter() -> None:
    transactions = PartitionTransactions()
    transactions.wrote(A, at(8))
    assert transactions.advance_high_watermark(at(6)) == 6


def test_a_marker_without_data_touches_neither_the_bound_nor_the_index() -> None:
    transactions = PartitionTransactions()
    transactions.wrote(A, at(0))
    assert transactions.ended(B, at(1), committed=False) is None
    assert transactions.advance_high_watermark(at(2)) == 0
    assert transactions.first_offset(A) == 0


def test_committed_transactions_are_not_listed() -> None:
    transactions = PartitionTransactions()
    transactions.wrote(A, at(0))
    assert transactions.ended(A, at(1), committed=True) is None


def test_aborted_ones_begun_before_the_range_are_listed_and_all_by_first_offset() -> None:
    transactions = PartitionTransactions()
    transactions.wrote(A, at(0))
    transactions.wrote(B, at(2))
    aborted = AbortedIndex()
    for producer, offset in ((B, 4), (A, 6)):
        ended = transactions.ended(producer, at(offset), committed=False)
        assert ended is not None
        aborted.add(ended)
    both = [AbortedTransaction(A, at(0)), AbortedTransaction(B, at(2))]
    assert aborted.overlapping(at(3), at(5)) == both
    assert aborted.overlapping(at(5), at(6)) == both[:1]
    assert aborted.overlapping(at(7), at(9)) == []
    assert aborted.overlapping(at(0), at(2)) == both[:1]


def test_what_ended_before_the_log_starts_is_forgotten() -> None:
    aborted = AbortedIndex()
    for number in range(10):
        marker = 2 * number + 1
        aborted.add(Aborted(A, at(2 * number), at(marker), at(marker + 1)))
    aborted.forget_before(at(7))
    assert len(aborted) == 7
    assert aborted.overlapping(at(0), at(8)) == [AbortedTransaction(A, at(6))]


class Log:
    """The oracle: all batches and markers in order, searched from the start each time."""

    def __init__(self) -> None:
        self.transactions = PartitionTransactions()
        self.listed = AbortedIndex()
        self.entries: list[tuple[int, str]] = []

    def spans(self) -> list[tuple[int, int, int | None, bool]]:
        """Producer, first offset, offset of the marker if there is one, whether committed."""
        spans: list[tuple[int, int, int | None, bool]] = []
        open_from: dict[int, int] = {}
        for offset, (producer, kind) in enumerate(self.entries):
            if kind == "data":
                open_from.setdefault(producer, offset)
            elif kind != "plain" and producer in open_from:
                spans.append((producer, open_from.pop(producer), offset, kind == "commit"))
        spans += [(producer, first, None, False) for producer, first in open_from.items()]
        return spans

    def append(self, producer: int, kind: str) -> None:
        offset = at(len(self.entries))
        self.entries.append((producer, kind))
        if kind == "data":
            self.transactions.wrote(ProducerId(producer), offset)
        elif kind != "plain":
            ended = self.transactions.ended(
                ProducerId(producer), offset, committed=kind == "commit"
            )
            if ended is not None:
                self.listed.add(ended)

    def stable(self, high_watermark: int) -> int:
        bounds = [
            first
            for _, first, marker, _ in self.spans()
            if marker is None or marker >= high_watermark
        ]
        return min([high_watermark, *bounds])

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        found = [
            (first, producer)
            for producer, first, marker, committed in self.spans()
            if marker is not None and not committed and first < end and marker >= start
        ]
        return [(producer, first) for first, producer in sorted(found)]


KINDS = st.sampled_from(["data", "data", "commit", "abort", "plain"])
STEPS = st.lists(st.tuples(st.integers(0, 4), KINDS, st.booleans()), max_size=60)


@given(STEPS, st.data())
def test_any_log_agrees_with_reading_all_of_it(
    steps: list[tuple[int, str, bool]], data: st.DataObject
) -> None:
    log = Log()
    durable = stable = 0
    for producer, kind, flush in steps:
        log.append(producer, kind)
        if flush:
            durable = data.draw(st.integers(durable, len(log.entries)))
            assert log.transactions.advance_high_watermark(at(durable)) == log.stable(durable)
            assert log.transactions.last_stable_offset >= stable
            stable = log.transactions.last_stable_offset
    for start in range(len(log.entries)):
        end = data.draw(st.integers(start, len(log.entries)))
        listed = log.listed.overlapping(at(start), at(end))
        assert [tuple(one) for one in listed] == log.aborted(start, end)


@given(STEPS)
def test_a_checkpoint_holds_all_of_it(steps: list[tuple[int, str, bool]]) -> None:
    log = Log()
    for producer, kind, _ in steps:
        log.append(producer, kind)
    end = at(len(log.entries))
    stored = msgspec.msgpack.encode(log.transactions.snapshot())
    restored = PartitionTransactions()
    restored.restore(msgspec.msgpack.decode(stored, type=PartitionTransactionsSnapshot), end)
    assert restored.last_stable_offset == log.stable(end)
    assert restored.snapshot() == log.transactions.snapshot()
    again = Log()
    again.entries, again.transactions, again.listed = log.entries, restored, log.listed
    for producer in range(5):
        again.append(producer, "abort")
    listed = again.listed.overlapping(at(0), at(len(again.entries)))
    assert [tuple(one) for one in listed] == again.aborted(0, len(again.entries))


def test_a_checkpoint_that_lists_aborted_transactions_one_by_one_is_read() -> None:
    rows = [(7, 0, 2, 3), (8, 4, 9, 10)]
    stored = msgspec.msgpack.encode(([(9, 10)], rows))
    restored = PartitionTransactions()
    restored.restore(msgspec.msgpack.decode(stored, type=PartitionTransactionsSnapshot), at(11))
    assert restored.aborted_before is not None
    listed = restored.aborted_before.overlapping(at(0), at(11))
    assert [tuple(one) for one in listed] == [(7, 0), (8, 4)]
    assert restored.last_stable_offset == 10
    # It is carried on by the next checkpoint, for no index file has them.
    stored = msgspec.msgpack.encode(restored.snapshot())
    again = PartitionTransactions()
    again.restore(msgspec.msgpack.decode(stored, type=PartitionTransactionsSnapshot), at(11))
    assert again.aborted_before is not None
    assert again.aborted_before.overlapping(at(0), at(11)) == listed
