"""The partitions of a transaction: a set like any other, that is not taken apart to grow."""

import struct
from collections.abc import Set
from random import Random

import pytest

from semel.lane.transactions import PARTITION_SIZE, ending_size
from semel.transactions import records
from semel.transactions.commands import Context, WriteRecords
from semel.transactions.coordinator import decide
from semel.transactions.participants import NOBODY, Participants, participants
from semel.types import ProducerId, TopicPartition
from support.transaction_world import TV2, World

TOPICS = ("a", "bb", "ccc")


def some(rng: Random, count: int) -> set[TopicPartition]:
    return {TopicPartition(rng.choice(TOPICS), rng.randrange(60)) for _ in range(count)}


@pytest.mark.parametrize("seed", range(50))
def test_it_is_equal_to_the_set_of_those_that_joined(seed: int) -> None:
    rng = Random(seed)
    taking_part = NOBODY
    expected: Set[TopicPartition] = frozenset()
    for _ in range(30):
        before = taking_part
        if rng.random() < 0.1:
            topic = rng.choice(TOPICS)
            taking_part = taking_part.without(topic)
            left: Set[TopicPartition] = frozenset(each for each in expected if each.topic != topic)
        else:
            joining = some(rng, rng.choice((0, 1, 1, 1, 3, 30)))
            taking_part = taking_part.joined(joining)
            left = expected | joining
        # Whoever has the value before sees nothing of it.
        assert before == expected
        expected = left
        assert taking_part == expected
        assert expected == taking_part
        assert hash(taking_part) == hash(participants(expected))
        assert sorted(taking_part) == sorted(expected)
        assert len(taking_part) == len(expected)
        others = some(rng, 20)
        assert [each in taking_part for each in others] == [each in expected for each in others]
        assert (others <= taking_part, taking_part <= others) == (
            others <= expected,
            expected <= others,
        )
        assert (others < taking_part, taking_part < others) == (
            others < expected,
            expected < others,
        )
        assert taking_part.has_all(others) == (others <= expected)
        assert taking_part.has_all(expected)
        assert taking_part.in_order() == tuple(sorted(expected))
        assert taking_part - others == expected - others
        names = {each.topic for each in expected}
        assert taking_part.topic_count == len(names)
        assert taking_part.names_size == sum(map(len, names))
        assert [taking_part.has_topic(topic) for topic in TOPICS] == [
            topic in names for topic in TOPICS
        ]


def test_it_is_packed_as_it_is_written() -> None:
    taking_part = participants({TopicPartition("b", 2**31 - 1), TopicPartition("b", 1)})
    taking_part = taking_part.joined([TopicPartition("a", 258)])
    no_tags = b"\0"
    assert taking_part.packed() == b"".join(
        (
            bytes([2 + 1]),
            *(bytes([1 + 1]), b"a", bytes([1 + 1]), struct.pack(">i", 258), no_tags),
            *(bytes([1 + 1]), b"b", bytes([2 + 1]), struct.pack(">2i", 1, 2**31 - 1), no_tags),
        )
    )
    assert participants(taking_part) is taking_part


def test_one_that_joins_does_not_go_through_those_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    producer = world.init()
    world.write(producer, *(TopicPartition("t", index) for index in range(1_000)))
    size = ending_size(world.value)

    def gone_through(self: Participants) -> None:
        raise AssertionError("each of them was looked at")

    monkeypatch.setattr(Participants, "__iter__", gone_through)
    context = Context(world.now_ms, world.term, ProducerId(99))
    writing = WriteRecords(*producer, frozenset({TopicPartition("t", 1_000)}), TV2)
    (wide,) = decide(world.value, writing, context).values
    assert not decide(wide, writing, context).values
    assert len(wide.partitions) == 1_001
    assert ending_size(wide) == size + PARTITION_SIZE
    _, stored = records.encode(wide)
    assert stored is not None
    monkeypatch.undo()
    assert records.decode(records.encode(wide)[0], stored) == wide
