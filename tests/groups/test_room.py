"""The bound of what a command may write: GroupWorld checks it on every step, here on large ones."""

from typing import Any

from semel.errors import NONE
from semel.groups.commands import OffsetToCommit, Protocol, Step
from semel.groups.records import GenerationRecorded
from semel.groups.room import STEP_BYTES_MAX
from semel.groups.settings import STRING_BYTES_MAX, GroupSettings
from semel.types import GroupId
from support.group_world import GROUP, SESSION_MS, GroupWorld

LARGE = 100_000


def test_a_large_assignment_fits_its_bound() -> None:
    world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=0))
    member, ticket = world.enter()
    world.sync(member, world.joined(ticket).generation, {member: bytes(LARGE)})
    assert isinstance(world.records[-1], GenerationRecorded)


def test_a_large_subscription_fits_its_bound_when_a_static_member_brings_it() -> None:
    world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=0))
    changes: dict[str, Any] = {"group_instance_id": "one", "protocol_type": "connect"}
    ticket = world.join(**changes)
    world.assign([world.joined(ticket).member_id], 1)
    count = len(world.records)
    large = (Protocol("range", bytes(LARGE)),)
    ticket = world.join(protocols=large, client_id="ü" * 10_000, **changes)
    assert world.joined(ticket).error_code == NONE
    assert len(world.records) == count + 1


def test_the_tombstones_of_a_large_group_fit_their_bound() -> None:
    world = GroupWorld()
    world.commit(0, offsets=tuple(OffsetToCommit(f"topic-{n}", 0, 1) for n in range(2_000)))
    assert world.delete(GROUP) == [NONE]
    assert world.groups.list_groups() == []


def test_many_groups_that_end_together_end_in_bounded_steps() -> None:
    world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=0))
    count = 100
    for number in range(count):
        name = GroupId(f"{'g' * 20_000}-{number}")
        ticket = world.join(group_id=name, group_instance_id="one")
        assert world.joined(ticket).error_code == NONE
    world.now_ms += SESSION_MS
    steps: list[Step] = []
    while sum(len(step.records) for step in steps) < count:
        steps.append(world.take(world.groups.expire(world.at), STEP_BYTES_MAX))
        assert steps[-1].records
    assert len(steps) > 1
    assert {listing.state for listing in world.groups.list_groups()} == {"Empty"}


def test_a_group_with_the_longest_names_ends_in_one_step() -> None:
    world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=0))
    name = GroupId("g" * STRING_BYTES_MAX)
    ticket = world.join(
        group_id=name, group_instance_id="one", protocol_type="p" * STRING_BYTES_MAX
    )
    assert world.joined(ticket).error_code == NONE
    world.pass_time(SESSION_MS)
    assert world.state(name) == "Empty"
