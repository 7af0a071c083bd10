"""Positions and what was fetched ahead of them: nothing is handed out that may not be."""

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.consuming.completed_fetch import CompletedFetch
from semel.client.consuming.partition import Position, Spot, Want
from semel.client.consuming.positions import Positions
from semel.errors import CorruptMessage, RecordListTooLarge
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, encode_batch
from semel.types import TopicPartition
from semel.wire.messages.fetch import AbortedTransaction

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
OLD, NEW = b"1" * 16, b"2" * 16


def batch(begin: int, end: int, epoch: int = 0, producer_id: int = -1) -> bytes:
    is_transactional = producer_id >= 0
    return encode_batch(
        [Record(None, str(number).encode(), 5) for number in range(begin, end)],
        base_offset=begin,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=0 if is_transactional else -1,
        is_transactional=is_transactional,
    )


def positions(*places: TopicPartition, size_max: int = 10_000) -> Positions:
    made = Positions(size_max, 2 * size_max, nullcontext())
    made.add(places, Want.COMMITTED)
    for spot in made.wanted():
        made.located(spot, 0)
    made.learn_leaders(dict.fromkeys(places, (1, 0)))
    return made


def spot_of(made: Positions, place: TopicPartition) -> Spot:
    (spot,) = made.spots([place])
    return spot


def put(made: Positions, place: TopicPartition, begin: int, end: int, epoch: int = 0) -> None:
    spot = spot_of(made, place)
    made.put(spot, CompletedFetch(place, batch(begin, end, epoch), (), spot.offset))


def taken(made: Positions, count: int = 100) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in made.take(count)]


@given(st.lists(st.integers(1, 5), max_size=6), st.lists(st.integers(1, 7), max_size=12))
def test_records_are_handed_out_once_and_in_order_however_they_are_cut(
    sizes: list[int], polls: list[int]
) -> None:
    made = positions(ONE)
    end = 0
    for size in sizes:
        put(made, ONE, end, end + size)
        end += size
    seen = 0
    for count in polls:
        assert taken(made, count) == [(0, n) for n in range(seen, min(end, seen + count))]
        seen = min(end, seen + count)
        assert made.position(ONE) == seen
    assert made.delivered() == {ONE: Position(seen, 0 if seen else -1)}


def test_an_answer_for_another_position_is_left_out() -> None:
    made = positions(ONE)
    before = spot_of(made, ONE)
    made.seek(ONE, 2)
    made.put(before, CompletedFetch(ONE, batch(0, 5), (), 0))
    assert taken(made) == []
    put(made, ONE, 0, 5)
    # The batch begins before the position, and is cut there.
    assert taken(made, 1) == [(0, 2)]
    made.remove([ONE])
    made.add([ONE], Want.COMMITTED)
    assert taken(made) == []
    assert made.position(ONE) is None


def test_a_revoked_partition_is_silent_at_once() -> None:
    made = positions(ONE, OTHER)
    put(made, ONE, 0, 5)
    put(made, OTHER, 0, 5)
    made.remove([ONE])
    assert taken(made) == [(1, n) for n in range(5)]


def test_a_paused_partition_keeps_what_was_fetched_and_asks_for_no_more() -> None:
    made = positions(ONE, OTHER)
    put(made, ONE, 0, 3)
    made.pause([ONE])
    assert taken(made) == []
    assert [spot.partition for spot in made.fetchable()[1]] == [OTHER]
    made.resume([ONE])
    assert taken(made) == [(0, 0), (0, 1), (0, 2)]


def test_paused_partitions_keep_no_more_than_a_part_of_what_may_be_fetched_ahead() -> None:
    size = len(batch(0, 3))
    places = [TopicPartition("t", number) for number in range(20)]
    # Of the eight batches that may wait for all, a quarter may wait on top for the paused ones.
    made = positions(*places, size_max=4 * size)
    for place in places:
        put(made, place, 0, 3)
        put(made, place, 3, 6)
    assert taken(made, 1) == [(0, 0)]
    made.pause(places[1:])
    made.pause(places[:1])
    made.resume(places)
    kept = taken(made)
    assert len(kept) == 6
    # All others are fetched where they stand, the one that was begun in its middle.
    (spots,) = made.fetchable().values()
    offsets = {spot.partition: spot.offset for spot in spots}
    reached = {**dict.fromkeys(places, 0), places[0]: 1}
    reached |= {TopicPartition("t", partition): offset + 1 for partition, offset in kept}
    assert offsets == reached


def test_what_comes_for_a_paused_partition_is_kept_within_the_same_bounds() -> None:
    size = len(batch(0, 3))
    made = positions(ONE, OTHER, size_max=2 * size)
    asked = spot_of(made, ONE)
    put(made, OTHER, 0, 3)
    made.pause([ONE, OTHER])
    made.put(asked, CompletedFetch(ONE, batch(0, 3), (), 0))
    made.resume([ONE, OTHER])
    assert taken(made) == [(1, 0), (1, 1), (1, 2)]
    put(made, ONE, 0, 3)
    assert taken(made) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize(("piece_count", "is_kept"), [(3, True), (50, False)])
def test_a_small_piece_of_a_large_answer_does_not_keep_all_of_it(
    piece_count: int, is_kept: bool
) -> None:
    piece = batch(0, 3)
    answer = bytearray(piece * piece_count)
    fetched = CompletedFetch(ONE, memoryview(answer)[: len(piece)], (), 0)
    try:
        answer.clear()
        is_free = True
    except BufferError:
        is_free = False
    assert is_free != is_kept
    assert [record.offset for record in fetched.take(9)] == [0, 1, 2]


def test_no_more_is_asked_for_than_there_is_room_for() -> None:
    size = len(batch(0, 3))
    made = positions(ONE, OTHER, size_max=size)
    put(made, ONE, 0, 3)
    # One partition has enough, the other has not.
    assert [spot.partition for spot in made.fetchable()[1]] == [OTHER]
    put(made, OTHER, 0, 3)
    assert made.fetchable() == {}
    made.has_room_news = False
    taken(made, 3)
    assert made.has_room_news
    (spots,) = made.fetchable().values()
    assert [(spot.partition, spot.offset) for spot in spots] == [(ONE, 3)]


def test_partitions_take_turns() -> None:
    made = positions(ONE, OTHER)
    for begin in (0, 2):
        put(made, ONE, begin, begin + 2)
        put(made, OTHER, begin, begin + 2)
    assert [place for place, _ in taken(made)] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_a_position_passes_by_markers_and_what_was_aborted() -> None:
    marker = Marker(
        type=MarkerType.ABORT,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        offset=4,
        timestamp_ms=0,
    )
    batches = b"".join(
        (
            batch(0, 2),
            batch(2, 4, producer_id=7),
            encode_marker(marker, leader_epoch=0),
        )
    )
    made = positions(ONE)
    made.put(spot_of(made, ONE), CompletedFetch(ONE, batches, [AbortedTransaction(7, 2)], 0))
    assert taken(made) == [(0, 0), (0, 1)]
    assert made.position(ONE) == 5


def test_a_damaged_batch_is_raised_and_fetched_again() -> None:
    made = positions(ONE)
    damaged = bytearray(batch(2, 4))
    damaged[-1] ^= 1
    made.put(spot_of(made, ONE), CompletedFetch(ONE, batch(0, 2) + bytes(damaged), (), 0))
    # What is good and stands before it is not held back.
    assert taken(made, 2) == [(0, 0), (0, 1)]
    with pytest.raises(CorruptMessage):
        taken(made)
    assert made.position(ONE) == 2
    put(made, ONE, 2, 4)
    assert taken(made) == [(0, 2), (0, 3)]
    with pytest.raises(RecordListTooLarge):
        CompletedFetch(ONE, batch(0, 9)[:100], (), 0)


def test_a_new_leader_is_asked_whether_it_has_what_was_read() -> None:
    made = positions(ONE)
    put(made, ONE, 0, 4, epoch=3)
    assert taken(made, 2) == [(0, 0), (0, 1)]
    made.learn_leaders({ONE: (2, 5)})
    assert len(made.wanted()) == 1
    spot = made.wanted()[0]
    assert (spot.want, spot.offset, spot.epoch, spot.leader_epoch) == (Want.CHECK, 2, 3, 5)
    # Nothing is handed out until it has answered, and its position is still known.
    assert taken(made) == []
    assert made.position(ONE) == 2
    # Older news change nothing.
    made.learn_leaders({ONE: (1, 4)})
    assert made.wanted() == [spot]
    made.located(spot, 2, 3)
    assert made.wanted() == []
    assert made.fetchable().keys() == {2}
    # What was read in the old epoch is not asked for again.
    put(made, ONE, 2, 4, epoch=3)
    assert taken(made) == [(0, 2), (0, 3)]
    made.learn_leaders({ONE: (2, 5)})
    assert made.wanted() == []


def test_a_position_is_one_of_the_topic_that_was_read_and_not_of_another_of_its_name() -> None:
    made = positions(ONE, OTHER)
    assert made.learn_topics({"t": OLD}) == []
    put(made, ONE, 0, 4)
    made.was_read(spot_of(made, ONE))
    assert taken(made, 2) == [(0, 0), (0, 1)]
    all_lost = made.learn_topics({"t": NEW, "another": b"3" * 16})
    assert len(all_lost) == 1
    lost = all_lost[0]
    # What was fetched ahead is of the old topic, and goes; of the other partition nothing was read.
    assert (lost.partition, lost.offset, lost.epoch, lost.topic_id) == (ONE, 2, -1, NEW)
    assert made.is_current(lost)
    assert taken(made) == []
    assert spot_of(made, OTHER).topic_id == NEW
    # Nothing is lost twice, and who has not heard of the new topic changes nothing.
    assert made.learn_topics({"t": NEW}) == made.learn_topics({"t": OLD}) == []
    assert made.learn_topics({"t": bytes(16)}) == made.learn_topics({}) == []
    assert spot_of(made, ONE) == lost


def test_an_answer_for_the_old_topic_does_not_count_in_the_new_one() -> None:
    made = positions(ONE)
    made.learn_topics({"t": OLD})
    before = spot_of(made, ONE)
    made.learn_topics({"t": NEW})
    made.put(before, CompletedFetch(ONE, batch(0, 4), (), 0))
    made.was_read(before)
    assert taken(made) == []
    assert made.learn_topics({"t": b"3" * 16}) == []


def test_records_that_are_handed_back_come_again() -> None:
    made = positions(ONE)
    put(made, ONE, 0, 5)
    records = made.take(4)
    made.hand_back(records[2:])
    assert made.position(ONE) == 2
    put(made, ONE, 0, 5)
    assert taken(made) == [(0, 2), (0, 3), (0, 4)]
