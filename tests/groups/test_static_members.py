"""Static members (KIP-345): an instance keeps its place while its process comes and goes."""

from typing import Any

from semel.errors import (
    NONE,
    FencedInstanceId,
    GroupMaxSizeReached,
    RebalanceInProgress,
    UnknownMemberId,
)
from semel.groups.commands import Protocol
from semel.groups.settings import GroupSettings
from semel.types import MemberId
from support.group_world import REBALANCE_MS, SESSION_MS, GroupWorld, everything, subscription

LONG_MS = 300_000


def stable_instances(world: GroupWorld, *instances: str, **changes: Any) -> list[MemberId]:
    tickets = [world.join(group_instance_id=instance, **changes) for instance in instances]
    world.pass_time(10_000)
    members = [world.joined(ticket).member_id for ticket in tickets]
    assert world.joined(tickets[0]).leader == members[0]
    world.assign(members, world.joined(tickets[0]).generation)
    return members


def test_a_static_member_joins_in_one_step_and_is_named_after_its_instance() -> None:
    world = GroupWorld()
    (member,) = stable_instances(world, "one")
    assert member.startswith("one-")


def test_a_static_member_that_returns_does_not_move_the_group() -> None:
    world = GroupWorld()
    leader, follower = stable_instances(world, "one", "two")
    ticket = world.join(group_instance_id="two")
    reply = world.joined(ticket)
    assert (reply.error_code, reply.generation, reply.leader) == (NONE, 1, leader)
    assert reply.member_id not in (leader, follower)
    assert (world.state(), world.heartbeat(leader, 1)) == ("Stable", NONE)
    synced = world.synced(world.sync(reply.member_id, 1, group_instance_id="two"))
    assert synced.assignment == f"for {follower}".encode()


def test_the_old_incarnation_of_a_returned_static_member_is_fenced() -> None:
    world = GroupWorld()
    _, old = stable_instances(world, "one", "two")
    new = world.joined(world.join(group_instance_id="two")).member_id
    before = everything(world.groups)
    assert world.heartbeat(old, 1, "two") == FencedInstanceId.code
    assert world.heartbeat(old, 1) == UnknownMemberId.code
    ticket = world.join(old, group_instance_id="two")
    assert world.joined(ticket).error_code == FencedInstanceId.code
    ticket = world.sync(old, 1, group_instance_id="two")
    assert world.synced(ticket).error_code == FencedInstanceId.code
    assert world.commit(1, old, 1, group_instance_id="two") == FencedInstanceId.code
    assert world.leave((old, "two")).members[0].error_code == FencedInstanceId.code
    assert everything(world.groups) == before
    assert world.heartbeat(new, 1, "two") == NONE


def test_a_returned_static_member_is_known_after_a_restart_by_its_new_id() -> None:
    world = GroupWorld()
    _, old = stable_instances(world, "one", "two")
    new = world.joined(world.join(group_instance_id="two")).member_id
    world.restart()
    assert world.heartbeat(new, 1, "two") == NONE
    assert world.heartbeat(old, 1, "two") == FencedInstanceId.code


def test_a_returned_leader_of_version_9_is_told_to_skip_the_assignment() -> None:
    world = GroupWorld()
    stable_instances(world, "one", "two")
    reply = world.joined(world.join(group_instance_id="one"))
    assert (reply.skip_assignment, reply.leader) == (True, reply.member_id)
    assert len(reply.members) == 2


def test_a_returned_leader_of_an_older_version_does_not_take_itself_for_the_leader() -> None:
    world = GroupWorld()
    old, _ = stable_instances(world, "one", "two")
    reply = world.joined(world.join(group_instance_id="one", can_skip_assignment=False))
    assert (reply.skip_assignment, reply.leader, reply.members) == (False, old, ())


def test_a_static_member_that_returns_with_other_topics_moves_the_group() -> None:
    world = GroupWorld()
    leader, _ = stable_instances(world, "one", "two")
    protocols = (Protocol("range", subscription("t", "more")),)
    ticket = world.join(group_instance_id="two", protocols=protocols)
    assert ticket not in world.replies
    assert world.heartbeat(leader, 1, "one") == RebalanceInProgress.code


def test_what_a_static_member_owned_when_it_joined_is_no_change_of_topics() -> None:
    world = GroupWorld()
    stable_instances(world, "one", "two")
    protocols = (Protocol("range", subscription("t", owned=b"\x00\x00\x00\x01")),)
    assert world.joined(world.join(group_instance_id="two", protocols=protocols)).generation == 1
    assert world.state() == "Stable"


def test_a_static_member_that_returns_and_turns_the_vote_moves_the_group() -> None:
    world = GroupWorld()
    first, second = (Protocol(name, subscription("t")) for name in ("range", "roundrobin"))
    stable_instances(world, "one", protocols=(first, second))
    ticket = world.join(group_instance_id="one", protocols=(second, first))
    assert world.joined(ticket).protocol_name == "roundrobin"
    assert world.joined(ticket).generation == 2


def test_a_static_member_that_returns_before_the_assignment_moves_the_group() -> None:
    world = GroupWorld()
    tickets = [world.join(group_instance_id=instance) for instance in ("one", "two")]
    world.pass_time(10_000)
    leader, follower = (world.joined(ticket).member_id for ticket in tickets)
    waiting = world.sync(follower, 1, group_instance_id="two")
    returned = world.join(group_instance_id="two")
    assert world.synced(waiting).error_code == FencedInstanceId.code
    assert world.state() == "PreparingRebalance"
    again = world.join(leader, group_instance_id="one")
    assert world.joined(again).generation == world.joined(returned).generation == 2


def test_a_static_member_that_returns_while_the_old_one_waits_takes_its_place() -> None:
    world = GroupWorld()
    first = world.join(group_instance_id="one")
    second = world.join(group_instance_id="one")
    assert world.joined(first).error_code == FencedInstanceId.code
    world.pass_time(10_000)
    assert [m.group_instance_id for m in world.joined(second).members] == ["one"]


def test_a_static_member_that_does_not_rejoin_keeps_its_place_for_its_session() -> None:
    world = GroupWorld()
    leader, away = stable_instances(world, "one", "two", session_timeout_ms=LONG_MS)
    ticket = world.join(leader, group_instance_id="one", session_timeout_ms=LONG_MS)
    world.pass_time(REBALANCE_MS)
    assert {m.member_id for m in world.joined(ticket).members} == {leader, away}


def test_a_group_of_static_members_of_which_none_rejoins_keeps_waiting() -> None:
    world = GroupWorld()
    leader, away = stable_instances(world, "one", "two", session_timeout_ms=LONG_MS)
    world.leave((leader, "one"))
    world.pass_time(2 * REBALANCE_MS)
    assert world.state() == "PreparingRebalance"
    ticket = world.join(away, group_instance_id="two", session_timeout_ms=LONG_MS)
    assert world.joined(ticket).leader == away


def test_a_static_member_whose_session_ends_is_out() -> None:
    world = GroupWorld()
    stable_instances(world, "one")
    world.pass_time(SESSION_MS)
    assert world.state() == "Empty"
    ticket = world.join(MemberId("one-old"), group_instance_id="one")
    assert world.joined(ticket).error_code == UnknownMemberId.code


def test_an_administrator_removes_a_static_member_by_its_instance_alone() -> None:
    world = GroupWorld()
    _, follower = stable_instances(world, "one", "two")
    reply = world.leave(("", "two"), ("", "three"))
    assert [member.error_code for member in reply.members] == [NONE, UnknownMemberId.code]
    assert world.heartbeat(follower, 1) == UnknownMemberId.code


def test_a_static_member_that_returns_has_a_full_session_again() -> None:
    world = GroupWorld()
    leader, _ = stable_instances(world, "one", "two")
    world.pass_time(SESSION_MS - 1)
    world.heartbeat(leader, 1, "one")
    new = world.joined(world.join(group_instance_id="two")).member_id
    world.pass_time(SESSION_MS - 1)
    assert world.heartbeat(new, 1, "two") == NONE


def test_a_static_member_returns_to_a_full_group() -> None:
    world = GroupWorld(GroupSettings(member_count_max=2))
    stable_instances(world, "one", "two")
    assert world.joined(world.join(group_instance_id="two")).error_code == NONE
    ticket = world.join(group_instance_id="three")
    assert world.joined(ticket).error_code == GroupMaxSizeReached.code


def test_a_returned_static_member_may_ask_for_the_assignment_in_place_of_the_old_one() -> None:
    world = GroupWorld()
    tickets = [world.join(group_instance_id=instance) for instance in ("one", "two")]
    world.pass_time(10_000)
    leader, follower = (world.joined(ticket).member_id for ticket in tickets)
    world.sync(leader, 1, {leader: b"L", follower: b"F"}, group_instance_id="one")
    new = world.joined(world.join(group_instance_id="two")).member_id
    assert world.synced(world.sync(new, 1, group_instance_id="two")).assignment == b"F"
    for _ in range(2 * REBALANCE_MS // 5_000):
        world.pass_time(5_000)
        assert world.heartbeat(leader, 1, "one") == NONE
        assert world.heartbeat(new, 1, "two") == NONE


def test_a_returned_static_member_that_never_asks_for_the_assignment_is_out() -> None:
    world = GroupWorld()
    tickets = [world.join(group_instance_id=instance) for instance in ("one", "two")]
    world.pass_time(10_000)
    leader = world.joined(tickets[0]).member_id
    world.sync(leader, 1, {}, group_instance_id="one")
    new = world.joined(world.join(group_instance_id="two")).member_id
    for _ in range(REBALANCE_MS // 5_000):
        world.pass_time(5_000)
        world.heartbeat(leader, 1, "one")
        world.heartbeat(new, 1, "two")
    assert world.heartbeat(new, 1, "two") == UnknownMemberId.code


def test_a_new_static_member_whose_connection_breaks_while_it_waits_is_expected_back() -> None:
    world = GroupWorld()
    other = world.join(group_instance_id="one")
    world.forget(world.join(group_instance_id="two"))
    world.pass_time(10_000)
    instances = {member.group_instance_id for member in world.joined(other).members}
    assert instances == {"one", "two"}
