"""Traces of a TV1 producer, whose transactions share one epoch, are told apart by their times."""

from semel.cli.story import Story, stories_of, with_traces
from semel.client.admin.transaction_history import StoredValue, TransactionTrace, WrittenRecords
from semel.records.control import Marker, MarkerType
from semel.transactions.transaction import Status, Transaction
from semel.types import ProducerEpoch, ProducerId, TopicPartition, TransactionalId

HERE = TopicPartition("orders", 0)


def committed(number: int, prepared_ms: int, completed_ms: int) -> list[StoredValue]:
    """The values of one transaction; `number` fixes their offsets."""
    steps = [
        (Status.ONGOING, prepared_ms - 5),
        (Status.PREPARE_COMMIT, prepared_ms),
        (Status.COMPLETE_COMMIT, completed_ms),
    ]
    return [
        StoredValue(
            3 * number + step,
            written_at_ms,
            Transaction(
                transactional_id=TransactionalId("pay"),
                producer_id=ProducerId(7),
                producer_epoch=ProducerEpoch(0),
                timeout_ms=60_000,
                status=status,
                partitions=frozenset({HERE}),
            ),
        )
        for step, (status, written_at_ms) in enumerate(steps)
    ]


def trace(first_offset: int, marked_ms: int) -> TransactionTrace:
    return TransactionTrace(
        7,
        WrittenRecords(first_offset, first_offset, 1, marked_ms, 0),
        Marker(MarkerType.COMMIT, first_offset + 1, 7, 0, 0, marked_ms),
    )


def first_offsets(stories: list[Story]) -> list[int | None]:
    written = [story.traces[HERE].written if HERE in story.traces else None for story in stories]
    return [one.first_offset if one else None for one in written]


def matched(times_ms: list[tuple[int, int]], marked_ms: list[int]) -> list[int | None]:
    """The first offsets given to transactions prepared and completed at these times."""
    values = [
        stored for number, times in enumerate(times_ms) for stored in committed(number, *times)
    ]
    traces = [trace(10 * number, at_ms) for number, at_ms in enumerate(marked_ms)]
    return first_offsets(with_traces(stories_of(values), {HERE: traces}))


def test_markers_of_the_same_moment_belong_to_transactions_in_their_order() -> None:
    assert matched([(100, 100), (100, 100), (100, 100)], [100, 100, 100]) == [0, 10, 20]


def test_a_marker_may_be_written_after_its_transaction_was_noted_as_complete() -> None:
    assert matched([(100, 101), (110, 111)], [105, 115]) == [0, 10]


def test_a_transaction_that_came_after_the_log_was_read_is_left_out() -> None:
    assert matched([(100, 101), (110, 111)], [105, 115, 125]) == [0, 10]


def test_a_trace_out_of_reach_leaves_its_transaction_without_one() -> None:
    assert matched([(100, 101), (110, 111), (120, 121)], [115, 125]) == [None, 0, 10]


def test_a_clock_that_lags_a_little_does_not_hide_the_marker() -> None:
    assert matched([(100_000, 100_001)], [99_000]) == [0]
    assert matched([(100_000, 100_001)], [50_000]) == [None]


def test_a_compacted_log_still_tells_the_end() -> None:
    (_, _, completed) = committed(0, 100, 101)
    (story,) = with_traces(stories_of([completed]), {HERE: [trace(0, 101)]})
    assert story.outcome == "committed"
    assert first_offsets([story]) == [0]
