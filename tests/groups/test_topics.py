"""Which groups have offsets of a topic: known without a look at the others."""

from random import Random

import pytest

from semel.groups.commands import UNASKED, ForgetTopic
from semel.groups.coordinator import Groups
from semel.groups.records import OffsetCommitted, OffsetForgotten
from semel.groups.settings import GroupSettings
from semel.types import NO_PRODUCER_ID, GroupId, ProducerId, TopicPartition
from semel.world import Moment

GROUPS = [GroupId(name) for name in "ghij"]
TOPICS = "tuv"
PRODUCERS = [ProducerId(number) for number in (1, 2, 3)]


def committed(group_id: GroupId, topic: str, index: int) -> OffsetCommitted:
    return OffsetCommitted(group_id, topic, index, 7, -1, "", 0, -1)


def kept(groups: Groups, topic: str) -> set[tuple[GroupId, TopicPartition]]:
    """By a look at all there is."""
    records = [each.record for each in groups.snapshot().offsets]
    return {(each.group_id, each.topic_partition) for each in records if each.topic == topic}


@pytest.mark.parametrize("seed", range(30))
def test_a_topic_takes_just_its_own_offsets_along(seed: int) -> None:
    rng = Random(seed)
    groups = Groups(GroupSettings())
    for now_ms in range(200):
        group_id, topic, index = rng.choice(GROUPS), rng.choice(TOPICS), rng.randrange(3)
        match rng.randrange(5):
            case 0:
                groups.apply(committed(group_id, topic, index), now_ms, NO_PRODUCER_ID)
            case 1:
                groups.apply(committed(group_id, topic, index), now_ms, rng.choice(PRODUCERS))
            case 2:
                groups.apply(OffsetForgotten(group_id, topic, index), now_ms)
            case 3:
                groups.apply_marker(rng.choice(PRODUCERS), committed=rng.random() < 0.5)
            case _ if rng.random() < 0.2:
                groups.restore(groups.snapshot())
        for each in TOPICS:
            decided = groups.decide(ForgetTopic(each), UNASKED, Moment(now_ms, now_ms))
            found = []
            for record in decided.records:
                assert isinstance(record, OffsetForgotten)
                found.append((record.group_id, record.topic_partition))
            assert len(found) == len(set(found))
            assert set(found) == kept(groups, each)
        if rng.random() < 0.05:
            decided = groups.decide(ForgetTopic(topic), UNASKED, Moment(now_ms, now_ms))
            for record in decided.records:
                groups.apply(record, now_ms)
            assert kept(groups, topic) == set()


def test_groups_without_offsets_of_a_topic_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = Groups(GroupSettings())
    for number in range(100):
        groups.apply(committed(GroupId(f"other{number}"), "kept", 0), 0)
    groups.apply(committed(GroupId("g"), "gone", 0), 0)
    looked_at = []
    *_, (_, group) = groups.lasting.walk()
    offsets_class = type(group.offsets)
    of_topic = offsets_class.of_topic

    def counted(self: object, topic: str) -> list[TopicPartition]:
        looked_at.append(self)
        return of_topic(self, topic)  # type: ignore[arg-type]

    monkeypatch.setattr(offsets_class, "of_topic", counted)
    decided = groups.decide(ForgetTopic("gone"), UNASKED, Moment(0, 0))
    assert decided.records == (OffsetForgotten(GroupId("g"), "gone", 0),)
    assert looked_at == [group.offsets]
