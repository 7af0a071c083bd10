"""What a read_committed reader sees, against a log whose truth the test keeps itself."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.client.columns.decode import decode
from semel.client.consuming.committed import next_offset, visible_batches
from semel.client.consuming.completed_fetch import CompletedFetch
from semel.errors import CorruptMessage, RecordListTooLarge
from semel.records.batch import read, split
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import TopicPartition
from semel.verify.workloads.readers import committed_records
from semel.wire.messages.fetch import AbortedTransaction, PartitionData
from support.compacted_log import emptied, thinned

PLACE = TopicPartition("t", 0)


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


class Batch(NamedTuple):
    content: bytes
    transaction: int
    """Those of one transaction have one number; plain ones have none, -1."""


class CompactedLog(NamedTuple):
    stream: bytes
    aborted: list[AbortedTransaction]
    offsets: list[int]
    """Of the committed records that are left."""
    end: int


def batches_of(log: Log) -> list[Batch]:
    """The batches of a log, each with the number of its transaction."""
    numbers: dict[int, int] = {}
    found = []
    for place, (header, batch) in enumerate(split(log.stream)):
        number = -1
        if header.is_transactional:
            number = numbers.setdefault(header.producer_id, place)
            if header.is_control:
                del numbers[header.producer_id]
        found.append(Batch(bytes(batch), number))
    return found


def compacted(log: Log, data: st.DataObject) -> CompactedLog:
    """As compaction leaves a log.

    Any batch may be gone or emptied but for the last one, which is never gone. A marker goes after
    the records that it ended, and takes the entry about them out of the list at the latest when
    it is gone itself.
    """
    batches = batches_of(log)
    headers = [read(batch.content) for batch in batches]
    fates = ["whole", "thinned", "emptied", "gone"]
    left = [data.draw(st.sampled_from(fates)) for _ in batches]
    kept_of = [
        {data.draw(st.sampled_from(range(header.base_offset, header.last_offset + 1)))}
        if fate == "thinned"
        else set(range(header.base_offset, header.last_offset + 1) if fate == "whole" else ())
        for header, fate in zip(headers, left, strict=True)
    ]
    unlisted: set[tuple[int, int]] = set()
    for place, header in enumerate(headers):
        number = batches[place].transaction
        if header.is_control:
            own = [one for one in range(place) if batches[one].transaction == number]
            if left[place] == "thinned" or any(kept_of[one] for one in own):
                left[place] = "whole"
            elif left[place] == "gone" or data.draw(st.booleans()):
                unlisted.add((header.producer_id, headers[own[0]].base_offset))
    if left and left[-1] == "gone":
        left[-1] = "emptied"
    contents = [batch.content for batch in batches]
    kept = [
        {"whole": content, "emptied": emptied(content)}.get(fate) or thinned(content, offsets)
        for content, fate, offsets in zip(contents, left, kept_of, strict=True)
        if fate != "gone"
    ]
    whole: set[int] = set().union(*kept_of)
    return CompactedLog(
        b"".join(kept),
        [one for one in log.aborted if (one.producer_id, one.first_offset) not in unlisted],
        [offset for offset in log.committed_offsets if offset in whole],
        log.end,
    )


@settings(max_examples=300)
@given(steps, st.data())
def test_what_compaction_has_left_of_committed_records_is_read_by_everyone(
    moves: list[tuple[int, str, int]], data: st.DataObject
) -> None:
    log = compacted(log_of(moves), data)
    records = [
        record
        for position, _ in visible_batches(log.stream, log.aborted)
        for record in decode_batch(log.stream, position)
    ]
    assert [record.offset for record in records] == log.offsets
    assert next_offset(log.stream, 0) == log.end
    rows = decode(log.stream, PLACE, aborted=log.aborted)
    assert rows.column("offset").to_pylist() == log.offsets
    answer = PartitionData(0, aborted_transactions=log.aborted, records=log.stream)
    verified, end = committed_records(answer, 0)
    assert ([each.offset for each in verified], end) == (log.offsets, log.end)
    if log.stream:
        fetched = CompletedFetch(PLACE, log.stream, log.aborted, 0)
        assert [record.offset for record in fetched.take(1_000)] == log.offsets
        assert (fetched.is_done, fetched.next_offset) == (True, log.end)


def test_a_damaged_marker_ends_no_transaction() -> None:
    log = log_of([(1, "write", 1), (1, "abort", 0)])
    damaged = bytearray(log.stream)
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage):
        list(visible_batches(damaged, log.aborted))


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
