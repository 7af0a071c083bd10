"""Steps that nobody asked for are of bounded size; what does not fit stays due."""

import pytest

from semel.errors import NONE
from semel.groups.commands import UNASKED, Expire
from semel.groups.deciding import GroupDecision
from semel.groups.expiring import RETENTION_LOOKS_MAX
from semel.groups.lasting import Offsets
from semel.groups.records import OffsetForgotten, size_alone
from semel.groups.settings import STRING_BYTES_MAX, GroupSettings
from semel.types import GroupId, TopicPartition
from support.compiled import plain_python
from support.group_world import (
    EXPIRED_SIZE_MAX,
    GROUP,
    SESSION_MS,
    GroupWorld,
    everything,
)

SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)
RETENTION_MS = SETTINGS.offsets_retention_ms


def size(decided: GroupDecision) -> int:
    return sum(map(size_alone, decided.records))


def lonely(world: GroupWorld, name: GroupId) -> None:
    """A group of one static member, whose session ends if nothing more is heard of it."""
    ticket = world.join(group_id=name, group_instance_id="one")
    assert world.joined(ticket).error_code == NONE


def test_many_groups_that_end_together_end_in_bounded_steps() -> None:
    world = GroupWorld(SETTINGS)
    count = 100
    for number in range(count):
        lonely(world, GroupId(f"{'g' * 20_000}-{number}"))
    world.now_ms += SESSION_MS
    steps: list[GroupDecision] = []
    while sum(len(step.records) for step in steps) < count:
        steps.append(world.expire())
        assert steps[-1].records
        assert size(steps[-1]) <= EXPIRED_SIZE_MAX
    assert len(steps) > 1
    assert {listing.state for listing in world.groups.listed()} == {"Empty"}


def test_a_thousand_small_groups_end_in_several_steps() -> None:
    world = GroupWorld(SETTINGS)
    count = 1_001
    for number in range(count):
        lonely(world, GroupId(f"g{number}"))
    world.now_ms += SESSION_MS
    looked_at = []
    while (deadline_ms := world.groups.next_deadline_ms()) and deadline_ms <= world.now_ms:
        looked_at.append(len(world.expire(2**30).records))
    assert sum(looked_at) == count
    assert max(looked_at) <= 500


def test_a_group_with_the_longest_names_ends_in_one_step() -> None:
    world = GroupWorld(SETTINGS)
    name = GroupId("g" * STRING_BYTES_MAX)
    ticket = world.join(
        group_id=name, group_instance_id="one", protocol_type="p" * STRING_BYTES_MAX
    )
    assert world.joined(ticket).error_code == NONE
    world.pass_time(SESSION_MS)
    assert world.state(name) == "Empty"


def test_whoever_has_no_room_is_told_what_it_takes_and_may_leave_it() -> None:
    world = GroupWorld(SETTINGS)
    lonely(world, GROUP)
    world.now_ms += SESSION_MS
    before = everything(world.groups)
    for records_size_max in (0, 10):
        decided = world.groups.decide(Expire(world.now_ms, records_size_max), UNASKED, world.at)
        assert len(decided.records) == 1
        assert everything(world.groups) == before
    deadline_ms = world.groups.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms <= world.now_ms
    assert world.expire(0) == decided
    assert world.state() == "Empty"


def test_who_needs_no_room_does_not_wait_behind_who_does() -> None:
    world = GroupWorld()
    ending = GroupId("ending")
    world.join(group_id=ending, group_instance_id="one", session_timeout_ms=6_000)
    (stays, _), generation = world.stable(2)
    world.now_ms += SESSION_MS // 2
    assert world.heartbeat(stays, generation) == NONE
    world.now_ms += SESSION_MS // 2
    decided = world.expire(records_size_max=0)
    assert not decided.records
    described = world.groups.describe(GROUP)
    assert described is not None
    assert [member.member_id for member in described.members] == [stays]
    assert world.state(ending) == "CompletingRebalance"
    assert len(world.expire(records_size_max=0).records) == 1
    assert world.state(ending) == "Empty"


def test_retention_forgets_what_fits_and_goes_on_with_the_rest() -> None:
    world = GroupWorld(SETTINGS)
    topics = [f"t{number}" for number in range(10)]
    for topic in topics:
        world.commit(5, topic=topic)
    world.now_ms += 2 * RETENTION_MS
    one = size_alone(world.records[0])
    step = world.expire(3 * one)
    assert 1 < len(step.records) < len(topics)
    assert size(step) <= 3 * one
    assert len(world.expire(0).records) == 1
    while list(world.groups.listed()):
        assert world.expire(3 * one).records


@plain_python
@pytest.mark.parametrize("topics_per_group", [1, 10, 4_000])
def test_retention_looks_at_a_few_offsets_in_a_step_and_goes_on_where_it_stopped(
    topics_per_group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: a step looks at no more, whatever there is, and one pass looks at each of them once."""
    world = GroupWorld(SETTINGS)
    names = [GroupId(f"g{number}") for number in range(4_000 // topics_per_group)]
    old, young = set[tuple[GroupId, str]](), set[tuple[GroupId, str]]()
    for number, name in enumerate(names):
        for topic in range(topics_per_group):
            world.commit(5, topic=f"t{topic}", group_id=name)
            old.add((name, f"t{topic}"))
            if (number + topic) % 3 == 0:
                young.add((name, f"t{topic}"))
    world.now_ms += RETENTION_MS
    for name, topic_name in sorted(young):
        world.commit(6, topic=topic_name, group_id=name)
    looked_at: list[TopicPartition] = []
    has_expired = Offsets.has_expired

    def watched(offsets: Offsets, partition: TopicPartition, *rest: int) -> bool:
        looked_at.append(partition)
        return has_expired(offsets, partition, *rest)

    monkeypatch.setattr(Offsets, "has_expired", watched)
    forgotten = set()
    while (deadline_ms := world.groups.next_deadline_ms()) and deadline_ms <= world.now_ms:
        before = len(looked_at)
        for record in world.expire(2**30).records:
            assert isinstance(record, OffsetForgotten)
            forgotten.add((record.group_id, record.topic))
        assert len(looked_at) - before <= RETENTION_LOOKS_MAX
    assert forgotten == old - young
    assert len(looked_at) == len(old)
    assert deadline_ms == world.now_ms + SETTINGS.retention_check_interval_ms
