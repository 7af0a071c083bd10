"""Which transactions are told from the batches of a partition."""

from semel.client.admin.transaction_history import TransactionTracing
from semel.compaction.rewriting import packed, with_horizon
from semel.records.batch import read, split
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, encode_batch
from semel.records.scanning import plain_records
from support.compacted_log import emptied

PRODUCER = 7


def data(offset: int, count: int) -> bytes:
    return encode_batch(
        [Record(None, b"", 0)] * count,
        base_offset=offset,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(kind: MarkerType, offset: int) -> bytes:
    return encode_marker(Marker(kind, offset, PRODUCER, 0, 0, 0), leader_epoch=0)


def traced(*batches: bytes) -> list[tuple[int, int, str | None]]:
    """First offset and number of records of each transaction, and how it ended."""
    tracing = TransactionTracing(frozenset({PRODUCER}))
    for header, content in split(b"".join(batches)):
        tracing.meet(header, content)
    return [
        (
            trace.written.first_offset if trace.written else -1,
            trace.written.record_count if trace.written else 0,
            trace.marker.type.name if trace.marker else None,
        )
        for trace in tracing.traces()
    ]


def test_a_transaction_goes_from_its_first_batch_to_its_marker() -> None:
    log = [data(0, 2), data(2, 1), marker(MarkerType.COMMIT, 3), data(4, 1)]
    assert traced(*log) == [(0, 3, "COMMIT"), (4, 1, None)]


def test_of_a_transaction_that_compaction_has_emptied_nothing_is_told() -> None:
    gone = [emptied(data(0, 2)), emptied(marker(MarkerType.ABORT, 2))]
    assert traced(*gone, data(3, 1), marker(MarkerType.COMMIT, 4)) == [(3, 1, "COMMIT")]
    assert traced(data(0, 1), marker(MarkerType.COMMIT, 1), *gone[1:]) == [(0, 1, "COMMIT")]


def test_a_delete_horizon_is_not_taken_for_the_time_of_a_record() -> None:
    batch = encode_batch(
        [Record(b"key", None, 1_000), Record(b"other", b"value", 2_000)],
        producer_id=PRODUCER,
        producer_epoch=0,
        is_transactional=True,
    )
    due = packed(*with_horizon(read(batch), plain_records(read(batch), batch), 90_000))
    for stored, expected_ms in ((batch, 1_000), (due, 2_000)):
        tracing = TransactionTracing(frozenset({PRODUCER}))
        tracing.meet(read(stored), memoryview(stored))
        (trace,) = tracing.traces()
        assert trace.written is not None
        assert trace.written.first_timestamp_ms == expected_ms
