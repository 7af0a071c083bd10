"""What a read_committed reader sees, against a log whose truth the test keeps itself."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.committed import next_offset, visible_batches
from semel.errors import RecordListTooLarge
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, decode_batch, encode_batch
from semel.wire.messages.fetch import AbortedTransaction


class Log(NamedTuple):
    stream: bytes
    aborted: list[AbortedTransaction]
    committed_offsets: list[int]
    data_offsets: list[int]
    starts: list[int]
    end: int


# A step is one producer's: a plain batch, a transactional one, or the end of its transaction.
steps = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from(["plain", "write", "commit", "abort"]), st.integers(1, 3)
    ),
    max_size=25,
)


def log_of(moves: list[tuple[int, str, int]]) -> Log:
    """Runs the moves, and then aborts what is open, as the last stable offset would hide it."""
    stream, offset = b"", 0
    open_since: dict[int, int] = {}
    written: dict[int, list[int]] = {}
    aborted, committed, data, starts = [], [], [], []
    producers = {producer for producer, _, _ in moves}
    for producer, move, count in [*moves, *((producer, "abort", 0) for producer in producers)]:
        if move in ("commit", "abort"):
            if producer not in open_since:
                continue
            first = open_since.pop(producer)
            if move == "abort":
                aborted.append(AbortedTransaction(producer, first))
            else:
                committed += written[producer]
            written.pop(producer)
            kind = MarkerType.COMMIT if move == "commit" else MarkerType.ABORT
            stream += encode_marker(Marker(kind, offset, producer, 0, 0, 0), leader_epoch=0)
            starts.append(offset)
            offset += 1
            continue
        is_transactional = move == "write"
        offsets = list(range(offset, offset + count))
        if is_transactional:
            open_since.setdefault(producer, offset)
            written.setdefault(producer, []).extend(offsets)
        elif producer in open_since:
            continue
        else:
            committed += offsets
        data += offsets
        stream += encode_batch(
            [Record(b"%d" % number, b"", 0) for number in offsets],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=is_transactional,
        )
        starts.append(offset)
        offset += count
    return Log(stream, aborted, sorted(committed), data, starts, offset)


def seen(log: Log, aborted: Sequence[AbortedTransaction]) -> list[Record]:
    return [
        record
        for position, _ in visible_batches(log.stream, aborted)
        for record in decode_batch(log.stream, position)
    ]


@given(steps, st.data())
def test_exactly_the_committed_records_are_seen(
    moves: list[tuple[int, str, int]], data: st.DataObject
) -> None:
    log = log_of(moves)
    fetch_offset = data.draw(st.integers(0, log.end))
    records = seen(log, log.aborted)
    assert [record.offset for record in records] == log.committed_offsets
    assert all(record.key == b"%d" % record.offset for record in records)
    assert next_offset(log.stream, fetch_offset) == max(log.end, fetch_offset)


@given(steps)
def test_without_a_list_of_aborted_ones_all_data_is_seen_and_no_marker(
    moves: list[tuple[int, str, int]],
) -> None:
    log = log_of(moves)
    assert [record.offset for record in seen(log, ())] == log.data_offsets


def test_a_batch_that_is_only_begun_asks_for_more_room() -> None:
    batch = encode_batch([Record(b"k", b"v" * 100, 0)])
    with pytest.raises(RecordListTooLarge):
        next_offset(batch[:-1], 0)
