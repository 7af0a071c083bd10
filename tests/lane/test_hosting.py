"""Partitions that lie in a lane: what there is of one is made when it is first asked for."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from lane.test_recovery import empty_state
from semel.errors import CorruptJournal, UnknownTopicOrPartition
from semel.groups.settings import GroupSettings
from semel.journal.in_memory import MemoryJournal, Shelf
from semel.lane import restoring, snapshot
from semel.lane.catalogue import PARTITION_COUNT_MAX
from semel.lane.commands import LaneSettings
from semel.lane.hosting import Hosting
from semel.lane.lane import Lane
from semel.lane.producing import Incoming, Produce
from semel.lane.topics import CreateTopic, DeleteTopic, GrowTopic, HostPartitions
from semel.log.partition import Partition
from semel.records import batch as record_batch
from semel.records.records import Record, encode_batch
from semel.types import Offset
from support.handled import LoopClock, SeededRandomness
from support.lane_state import whole
from support.seeded_loop import run

MANY = PARTITION_COUNT_MAX
TOPIC_ID = b"i" * 16


def _fail(error: BaseException) -> None:
    raise error


async def _start(shelf: Shelf, number: int = 0) -> Lane:
    settings = LaneSettings(GroupSettings())
    randomness = SeededRandomness(Random(2))
    lane = Lane(MemoryJournal(shelf), settings, LoopClock(), randomness, number, number + 1)
    await lane.start(_fail)
    return lane


def in_a_lane(scenario: Callable[[Shelf], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        run(Random(1), scenario(Shelf()))

    return test


def produce(lane: Lane, topic: str, index: int) -> None:
    batch = memoryview(encode_batch([Record(b"k", b"v", 1_000)]))
    header = record_batch.read(batch)
    partition = lane.view.partition(topic, index)
    lane.submit(Produce([Incoming(partition, header, header.checksum, batch)]))


def made(lane: Lane) -> list[tuple[str, int]]:
    return sorted(each.topic_partition for each in lane._state.partitions.values())


@in_a_lane
async def test_a_topic_of_many_partitions_makes_none_before_it_is_asked_for(shelf: Shelf) -> None:
    lane = await _start(shelf)
    lane.submit(CreateTopic("t", MANY, {}))
    lane.submit(CreateTopic("grown", 1, {}))
    lane.submit(GrowTopic("grown", MANY))
    assert lane.view.partition_count == 2 * MANY
    assert lane.view.hosts_partition("t", MANY - 1)
    assert not lane.view.hosts_partition("t", MANY)
    assert lane.view.written("t", 0) is None
    assert made(lane) == []
    produce(lane, "grown", MANY - 1)
    produce(lane, "grown", 0)
    assert made(lane) == [("grown", 0), ("grown", MANY - 1)]
    lane.submit(DeleteTopic("t"))
    with pytest.raises(UnknownTopicOrPartition):
        lane.view.partition("t", 0)
    lane.submit(DeleteTopic("grown"))
    assert made(lane) == []
    assert lane.view.partition_count == 0


@in_a_lane
async def test_whether_one_was_asked_for_is_no_part_of_the_state(shelf: Shelf) -> None:
    lane = await _start(shelf)
    lane.submit(CreateTopic("t", 300, {}))
    produce(lane, "t", 7)
    before = whole(lane._state)
    for index in range(300):
        assert lane.view.partition("t", index).log_end_offset == (1 if index == 7 else 0)
    assert whole(lane._state) == before


@in_a_lane
async def test_the_next_process_makes_those_that_were_written(shelf: Shelf) -> None:
    lane = await _start(shelf)
    lane.submit(CreateTopic("t", 2, {}))
    lane.submit(CreateTopic("u", 3, {}))
    lane.submit(GrowTopic("t", MANY))
    produce(lane, "t", MANY - 1)
    produce(lane, "u", 2)
    lane.view.partition("u", 1)
    numbers = {each.topic_partition: each.number for each in lane._state.partitions.values()}
    await lane.until_durable()
    for is_from_checkpoint in (False, True):
        if is_from_checkpoint:
            await lane.close()
        else:
            shelf.kill()
        lane = await _start(shelf)
        assert made(lane) == [("t", MANY - 1), ("u", 2)]
        assert lane.view.partition("u", 2).high_watermark == 1
        found = {each: lane.view.partition(*each).number for each in numbers}
        assert found == numbers


@in_a_lane
async def test_what_is_written_behind_the_mark_is_not_in_the_checkpoint(shelf: Shelf) -> None:
    lane = await _start(shelf)
    lane.submit(CreateTopic("t", 10, {}))
    lane.view.partition("t", 1)
    before = whole(lane._state)
    pieces = snapshot.take(lane._state)
    taken = [next(pieces)]
    produce(lane, "t", 1)
    produce(lane, "t", 2)
    assert b"".join([*taken, *pieces]) == before


@in_a_lane
async def test_another_lane_hosts_what_was_added_and_nothing_twice(shelf: Shelf) -> None:
    lane = await _start(shelf, number=1)
    appended = []
    for count in (2, 2, 1_001, MANY, MANY):
        lane.submit(HostPartitions("t", TOPIC_ID, range(1, count, 2), count))
        appended.append(lane._journal.frames_appended)
        assert lane.view.partition_count == count // 2
        assert lane.view.hosts_partition("t", count - 1 - count % 2)
        assert not lane.view.hosts_partition("t", 0)
    assert appended == [2, 2, 3, 4, 4]
    assert made(lane) == []
    produce(lane, "t", MANY - 1)
    await lane.until_durable()
    shelf.kill()
    lane = await _start(shelf, number=1)
    assert made(lane) == [("t", MANY - 1)]
    assert lane.view.partition_count == MANY // 2


@in_a_lane
async def test_a_batch_of_a_partition_that_is_not_there_is_damage(shelf: Shelf) -> None:
    lane = await _start(shelf)
    lane.submit(CreateTopic("t", 10, {}))
    produce(lane, "t", 9)
    await lane.until_durable()
    position = max(shelf.frames)
    written = bytearray(shelf.frames[position])
    # The number stands behind the head and the kind of the first entry.
    assert written[18:22] == bytes([0, 0, 0, 9])
    for number in (10, 2**31):
        written[18:22] = number.to_bytes(4, "big")
        shelf.frames[position] = bytes(written)
        shelf.kill()
        with pytest.raises(CorruptJournal, match=f"partition {number}, which is not there"):
            await _start(shelf)


@pytest.mark.parametrize("seed", range(50))
def test_names_and_numbers_lead_to_the_same_partition(seed: int) -> None:
    rng = Random(seed)
    hosting = Hosting()
    expected: dict[tuple[str, int], int] = {}
    next_number = 0
    for _ in range(40):
        topic = rng.choice("abcd")
        if rng.random() < 0.2:
            gone = {each.topic_partition for each in hosting.drop(topic)}
            assert all(each[0] == topic for each in gone)
            expected = {key: number for key, number in expected.items() if key[0] != topic}
        else:
            first = max((index for name, index in expected if name == topic), default=-1) + 1
            indexes = sorted(rng.sample(range(first, first + 20), rng.randint(0, 6)))
            if rng.random() < 0.5:
                indexes = list(range(first, first + 9, rng.randint(1, 4)))
            next_number += rng.randint(0, 2)
            hosting.host(topic, indexes, next_number)
            for index in indexes:
                expected[topic, index] = next_number
                next_number += 1
            assert hosting.next_number >= next_number or not indexes
        keys = [(name, index) for name in "abcd" for index in range(-1, 200)]
        for name, index in rng.sample(keys, 100):
            number = expected.get((name, index))
            assert hosting.has(name, index) == (number is not None)
            if rng.random() < 0.5:
                found = hosting.partition(name, index)
                assert (found and found.number) == number
        names = {number: key for key, number in expected.items()}
        for number in rng.sample(range(-1, next_number + 2), min(20, next_number + 3)):
            made = hosting.numbered(number)
            assert (made and tuple(made.topic_partition)) == names.get(number)
        assert hosting.partition_count == len(expected)
        assert [each.number for each in hosting.made_by_number()] == sorted(hosting.made)
        for name in "abcd":
            runs = hosting.ranges(name)
            listed = [pair for run in runs for pair in zip(run.indexes, run.numbers, strict=True)]
            its = [(index, number) for (each, index), number in expected.items() if each == name]
            assert listed == its


@pytest.mark.parametrize("seed", range(20))
def test_who_goes_through_all_partitions_meets_those_that_stay_whatever_comes_and_goes(
    seed: int,
) -> None:
    rng = Random(seed)
    hosting = Hosting()
    topics = [f"t{number}" for number in range(12)]
    for number, topic in enumerate(topics):
        hosting.host(topic, range(50), 50 * number)
        for index in rng.sample(range(50), rng.choice((1, 10, 50))):
            hosting.partition(topic, index)
    stay = set(hosting.made)
    met: list[int] = []
    for partition in hosting.made_by_number():
        assert hosting.made[partition.number] is partition
        met.append(partition.number)
        if rng.random() < 0.05 and topics:
            topic = topics.pop(rng.randrange(len(topics)))
            stay -= {each.number for each in hosting.drop(topic)}
        if rng.random() < 0.1 and topics:
            hosting.partition(rng.choice(topics), rng.randrange(50))
    assert met == sorted(set(met))
    assert stay <= set(met)


class NotCopied(dict[int, Partition]):
    """Nobody goes through all of it."""

    def _fail(self, *_: object) -> Any:
        raise AssertionError("this takes longer the more there are")

    __iter__ = keys = values = items = copy = _fail


def test_nothing_is_done_at_once_for_each_partition() -> None:
    """Law: the mark of a checkpoint, and one step of a walk, take as long with many as with few."""
    state = empty_state()
    state.know_topic("t", TOPIC_ID, 1000)
    state.host("t", range(1000), 0)
    for index in range(1000):
        partition = state.hosting.partition("t", index)
        assert partition is not None
        partition.log_end_offset = Offset(1)
    state.hosting.made = state.partitions = NotCopied(state.hosting.made)
    expected = list(range(1000))
    assert [each.number for each in state.hosting.made_by_number()] == expected
    pieces = snapshot.take(state)
    after = empty_state()
    restoring.restore(b"".join(pieces), after)
    assert sorted(after.partitions) == expected
