"""The events of a transaction are told in the order in which they happened."""

from itertools import pairwise

import msgspec
import pytest

from semel.cli.story import Event, Story, events_of, stories_of
from semel.client.admin.transaction_history import StoredValue, TransactionTrace, WrittenRecords
from semel.records.control import Marker, MarkerType
from semel.transactions.key import TransactionKey
from semel.transactions.transaction import NO_TERM, JoinedLane, Status, Transaction
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition, TransactionalId

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def stored(offset: int, at_ms: int, status: Status, *partitions: TopicPartition) -> StoredValue:
    value = Transaction(
        transactional_id=TransactionalId("pay"),
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(0),
        timeout_ms=60_000,
        status=status,
        partitions=frozenset(partitions),
    )
    return StoredValue(offset, at_ms, value)


def trace(first_timestamp_ms: int, marked_ms: int | None) -> TransactionTrace:
    marker = None if marked_ms is None else Marker(MarkerType.COMMIT, 2, 7, 0, 0, marked_ms)
    return TransactionTrace(7, WrittenRecords(0, 1, 2, first_timestamp_ms, 0), marker)


def story(
    first_ms: int, second_ms: int, marked_ms: int | None = 1_501, *, is_ended: bool = True
) -> Story:
    """It begins at 1000, a second partition joins at 1200, and the end takes from 1500 to 1502."""
    values = [
        stored(0, 1_000, Status.ONGOING, FIRST),
        stored(1, 1_200, Status.ONGOING, FIRST, SECOND),
    ]
    if is_ended:
        values += [
            stored(2, 1_500, Status.PREPARE_COMMIT, FIRST, SECOND),
            stored(3, 1_502, Status.COMPLETE_COMMIT),
        ]
    (one,) = stories_of(values)
    traces = {FIRST: trace(first_ms, marked_ms), SECOND: trace(second_ms, marked_ms)}
    return one._replace(traces=traces)


def told(one: Story) -> list[tuple[int | None, str, int | None]]:
    """When, which way, and to which partition."""
    events: list[Event] = list(events_of(one))
    for before, after in pairwise(event.at_ms for event in events if event.at_ms is not None):
        assert before <= after
    return [
        (event.at_ms, event.flow, event.partition.partition if event.partition else None)
        for event in events
    ]


BEGUN, JOINED = [(1_000, "a", None), (1_000, "b", None)], [(1_200, "a", None), (1_200, "b", None)]
ENDED = [
    (1_500, "a", None),
    (1_500, "b", None),
    (1_501, "d", 0),
    (1_501, "d", 1),
    (1_502, "b", None),
]


def test_records_come_before_a_partition_that_joined_after_them() -> None:
    assert told(story(1_100, 1_300)) == [
        *BEGUN,
        (1_100, "c", 0),
        *JOINED,
        (1_300, "c", 1),
        *ENDED,
    ]


def test_records_that_were_made_before_their_partition_joined_are_written_after_that() -> None:
    assert told(story(990, 1_195)) == [*BEGUN, (1_000, "c", 0), *JOINED, (1_200, "c", 1), *ENDED]


def test_a_producer_whose_clock_is_ahead_writes_before_the_end_all_the_same() -> None:
    ahead = told(story(9_000, 9_001))
    assert ahead == [*BEGUN, *JOINED, (1_500, "c", 0), (1_500, "c", 1), *ENDED]


def test_markers_lie_between_the_decision_and_its_completion_whatever_their_clocks_say() -> None:
    for marked_ms, shown_ms in ((900, 1_500), (9_000, 1_502)):
        markers = [event for event in told(story(1_100, 1_300, marked_ms)) if event[1] == "d"]
        assert markers == [(shown_ms, "d", 0), (shown_ms, "d", 1)]


def test_what_is_open_is_told_up_to_its_last_records() -> None:
    open_yet = told(story(1_300, 1_250, None, is_ended=False))
    assert open_yet == [*BEGUN, *JOINED, (1_250, "c", 1), (1_300, "c", 0)]


def test_records_of_a_compacted_log_keep_their_own_time() -> None:
    (one,) = stories_of([stored(3, 1_502, Status.COMPLETE_COMMIT, FIRST)])
    events = told(one._replace(traces={FIRST: trace(1_100, 1_501)}))
    assert events == [(1_100, "c", 0), (1_502, "d", 0), (1_502, "b", None)]


KEY = TransactionKey(0, Term(2), ProducerId(7), ProducerEpoch(0), 1)


def over_lanes(at: StoredValue, *lanes: tuple[int, int]) -> StoredValue:
    joined = tuple(JoinedLane(lane, Term(term)) for lane, term in lanes)
    return at._replace(value=msgspec.structs.replace(at.value, lanes=joined, key=KEY))


def noted(one: Story) -> list[str]:
    return [event.words for event in events_of(one) if event.flow == "b"]


@pytest.mark.parametrize(
    ("vote", "last"),
    [
        ("awaited", None),
        ("yes", stored(4, 1_400, Status.COMPLETE_COMMIT)),
        ("no", stored(4, 1_400, Status.COMPLETE_ABORT)),
    ],
)
def test_lanes_join_in_their_terms_and_vote(vote: str, last: StoredValue | None) -> None:
    values = [
        over_lanes(stored(0, 1_000, Status.ONGOING, FIRST, SECOND), (1, NO_TERM), (2, NO_TERM)),
        over_lanes(stored(1, 1_100, Status.ONGOING, FIRST, SECOND), (1, 3), (2, NO_TERM)),
        over_lanes(stored(2, 1_200, Status.PREPARE_COMMIT, FIRST, SECOND), (1, 3), (2, NO_TERM)),
    ]
    if last is not None:
        ended = msgspec.structs.replace(last.value, key=KEY, is_voted_down=vote == "no")
        values.append(last._replace(value=ended))
    (one,) = stories_of(values)
    assert (one.key, one.lanes, one.vote) == (KEY, ((1, 3), (2, NO_TERM)), vote)
    assert one.title.endswith("by producer 7 of lane 0, with lanes 1, 2")
    said = {
        "awaited": [],
        "yes": ["pay → committed: other lanes said yes"],
        "no": ["pay → aborted: another lane said no, as it may have lost writes"],
    }
    assert noted(one) == [
        "pay → ongoing",
        "pay → ongoing, lane 1 in term 3",
        "pay → prepare commit: other lanes vote",
        *said[vote],
    ]
    # Nobody asked for what a lane made of it.
    assert [event.what for event in events_of(one) if event.flow == "a"] == ["begin", "commit"]


def test_a_transaction_of_one_lane_has_no_votes_also_behind_one_that_had_some() -> None:
    values = [
        stored(0, 1_000, Status.ONGOING, FIRST),
        stored(1, 1_100, Status.PREPARE_COMMIT, FIRST),
        stored(2, 1_200, Status.COMPLETE_COMMIT),
    ]
    with_key = [
        each._replace(value=msgspec.structs.replace(each.value, key=KEY)) for each in values
    ]
    (one,) = stories_of(with_key)
    assert (one.key, one.lanes, one.vote) == (None, (), None)
    assert noted(one) == ["pay → ongoing", "pay → prepare commit", "pay → committed"]
