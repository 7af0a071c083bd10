"""SyncGroup, Heartbeat, LeaveGroup and the clocks behind them."""

import pytest

from semel.errors import (
    NONE,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMemberId,
)
from semel.groups.membership import FOLLOWERS, State
from semel.groups.records import GenerationRecorded
from semel.groups.settings import GroupSettings
from semel.types import GroupId, MemberId
from support.group_world import GROUP, REBALANCE_MS, SESSION_MS, GroupWorld, everything


def completing(world: GroupWorld, count: int = 2) -> list[MemberId]:
    """A group that waits for its leader's assignment, the leader first."""
    entered = [world.enter() for _ in range(count)]
    while world.state() != "CompletingRebalance":
        world.pass_time(1)
    return [member for member, _ in entered]


def test_followers_wait_for_the_leaders_assignment() -> None:
    world = GroupWorld()
    leader, follower = completing(world)
    waiting = world.sync(follower, 1)
    assert waiting not in world.replies
    ticket = world.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert world.synced(ticket).assignment == b"L"
    assert world.synced(waiting).assignment == b"F"
    assert world.synced(waiting).protocol_type == "consumer"
    assert world.synced(waiting).protocol_name == "range"


def test_a_generation_is_recorded_when_the_leader_assigns_and_not_before() -> None:
    world = GroupWorld()
    leader, follower = completing(world)
    world.sync(follower, 1)
    assert world.records == []
    world.sync(leader, 1, {follower: b"F"})
    assert len(world.records) == 1
    record = world.records[0]
    assert isinstance(record, GenerationRecorded)
    assert (record.generation, record.leader, record.protocol) == (1, leader, "range")
    # Whom the leader did not name gets nothing.
    assert {m.member_id: m.assignment for m in record.members} == {leader: b"", follower: b"F"}


def test_a_stable_group_answers_sync_at_once_as_often_as_asked() -> None:
    world = GroupWorld()
    (_, follower), generation = world.stable(2)
    for _ in range(2):
        ticket = world.sync(follower, generation)
        assert world.synced(ticket).assignment == f"for {follower}".encode()


def test_the_leaders_second_assignment_changes_nothing() -> None:
    world = GroupWorld()
    (leader, follower), generation = world.stable(2)
    count = len(world.records)
    world.sync(leader, generation, {leader: b"other", follower: b"other"})
    assert len(world.records) == count
    ticket = world.sync(follower, generation)
    assert world.synced(ticket).assignment == f"for {follower}".encode()


def test_a_sync_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    world = GroupWorld()
    leader, _ = completing(world)
    before = everything(world.groups)
    refusals = [
        (world.sync(MemberId("ghost"), 1), UnknownMemberId),
        (world.sync(leader, 2), IllegalGeneration),
        (world.sync(leader, 0), IllegalGeneration),
        (world.sync(leader, 1, protocol_type="connect"), InconsistentGroupProtocol),
        (world.sync(leader, 1, protocol_name="sticky"), InconsistentGroupProtocol),
        (world.sync(leader, 1, group_id=GroupId("other")), UnknownMemberId),
        (world.sync(leader, 1, group_id=GroupId("")), InvalidGroupId),
    ]
    for ticket, error in refusals:
        assert world.synced(ticket).error_code == error.code
    assert everything(world.groups) == before
    ticket = world.sync(leader, 1, protocol_type="consumer", protocol_name="range")
    assert world.synced(ticket).error_code == NONE


def test_a_sync_during_a_rebalance_is_told_to_join_again() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.enter()
    ticket = world.sync(member, generation)
    assert world.synced(ticket).error_code == RebalanceInProgress.code


def test_those_who_wait_for_an_assignment_are_told_of_the_next_rebalance() -> None:
    world = GroupWorld()
    _, follower = completing(world)
    waiting = world.sync(follower, 1)
    world.enter()
    assert world.synced(waiting).error_code == RebalanceInProgress.code


def test_a_second_sync_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    world = GroupWorld()
    leader, follower = completing(world)
    first = world.sync(follower, 1)
    second = world.sync(follower, 1)
    assert world.synced(first).error_code == RebalanceInProgress.code
    world.sync(leader, 1, {follower: b"F"})
    assert world.synced(second).assignment == b"F"


def test_who_does_not_sync_within_the_rebalance_timeout_is_out() -> None:
    world = GroupWorld()
    leader, silent = completing(world)
    world.sync(leader, 1, {leader: b"L"})
    for _ in range(REBALANCE_MS // 5_000):
        assert world.heartbeat(silent, 1) == NONE
        assert world.heartbeat(leader, 1) == NONE
        world.pass_time(5_000)
    assert world.heartbeat(silent, 1) == UnknownMemberId.code
    assert world.heartbeat(leader, 1) == RebalanceInProgress.code


def test_a_leader_that_dies_before_it_assigns_is_replaced() -> None:
    world = GroupWorld()
    leader, follower = completing(world)
    waiting = world.sync(follower, 1)
    world.pass_time(SESSION_MS)
    assert world.synced(waiting).error_code == RebalanceInProgress.code
    reply = world.joined(world.join(follower))
    assert (reply.leader, reply.generation) == (follower, 2)
    assert world.heartbeat(leader, 2) == UnknownMemberId.code


def test_a_member_waiting_for_its_assignment_does_not_lose_its_session() -> None:
    world = GroupWorld()
    leader, follower = completing(world)
    waiting = world.sync(follower, 1)
    for _ in range(4):
        world.pass_time(SESSION_MS - 1)
        assert world.heartbeat(leader, 1) == NONE
    world.sync(leader, 1, {follower: b"F"})
    assert world.synced(waiting).assignment == b"F"
    world.pass_time(SESSION_MS - 1)
    assert world.heartbeat(follower, 1) == NONE


def test_a_member_whose_connection_breaks_while_it_syncs_can_ask_again() -> None:
    world = GroupWorld()
    leader, follower = completing(world)
    lost = world.sync(follower, 1)
    world.forget(lost)
    world.sync(leader, 1, {follower: b"F"})
    assert lost not in world.replies
    assert world.synced(world.sync(follower, 1)).assignment == b"F"


def test_a_member_whose_connection_broke_while_it_synced_has_a_session_again() -> None:
    world = GroupWorld()
    leader, follower = completing(world)
    ticket = world.sync(follower, 1)
    for _ in range(2):
        world.pass_time(SESSION_MS - 1)
        assert world.heartbeat(leader, 1) == NONE
    world.forget(ticket)
    world.pass_time(SESSION_MS - 1)
    assert world.heartbeat(leader, 1) == NONE
    world.pass_time(1)
    assert world.heartbeat(leader, 1) == RebalanceInProgress.code
    assert world.heartbeat(follower, 1) == UnknownMemberId.code


def test_heartbeats_keep_a_session_and_silence_ends_it() -> None:
    world = GroupWorld()
    (leader, silent), generation = world.stable(2)
    for _ in range(3):
        world.pass_time(SESSION_MS - 1)
        assert world.heartbeat(leader, generation) == NONE
        world.heartbeat(silent, generation)
    world.pass_time(SESSION_MS - 1)
    world.heartbeat(leader, generation)
    world.pass_time(1)
    assert world.heartbeat(leader, generation) == RebalanceInProgress.code
    assert world.heartbeat(silent, generation) == UnknownMemberId.code


def test_a_heartbeat_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    world = GroupWorld()
    assert world.heartbeat(MemberId("m"), 1) == UnknownMemberId.code
    (member,), generation = world.stable()
    before = everything(world.groups)
    world.now_ms += 5
    assert world.heartbeat(member, generation + 1) == IllegalGeneration.code
    assert world.heartbeat(member, generation - 1) == IllegalGeneration.code
    assert world.heartbeat(MemberId("ghost"), generation) == UnknownMemberId.code
    assert world.heartbeat(member, generation, "nobody") == UnknownMemberId.code
    assert everything(world.groups) == before


def test_a_heartbeat_before_the_assignment_is_welcome() -> None:
    world = GroupWorld()
    leader, _ = completing(world)
    assert world.heartbeat(leader, 1) == NONE


def test_a_member_that_leaves_makes_the_others_rebalance() -> None:
    world = GroupWorld()
    (leader, follower), generation = world.stable(2)
    reply = world.leave((leader, None))
    assert [member.error_code for member in reply.members] == [NONE]
    assert world.heartbeat(follower, generation) == RebalanceInProgress.code
    assert world.joined(world.join(follower)).leader == follower


def test_an_id_that_leaves_before_it_joined_disturbs_no_one() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    pending = world.joined(world.join()).member_id
    reply = world.leave((pending, None))
    assert [left.error_code for left in reply.members] == [NONE]
    assert world.state() == "Stable"
    assert world.heartbeat(member, generation) == NONE


def test_a_rebalance_does_not_wait_for_an_id_that_leaves() -> None:
    world = GroupWorld()
    (member,), _ = world.stable()
    pending = world.joined(world.join()).member_id
    ticket = world.join(member)
    assert ticket not in world.replies
    world.leave((pending, None))
    assert world.joined(ticket).error_code == NONE


def test_several_members_leave_at_once_each_with_its_own_answer() -> None:
    world = GroupWorld()
    members, _ = world.stable(3)
    pending = world.joined(world.join()).member_id
    reply = world.leave((members[0], None), ("ghost", None), (pending, None), (members[1], None))
    codes = [member.error_code for member in reply.members]
    assert codes == [NONE, UnknownMemberId.code, NONE, NONE]
    reply_to_last = world.joined(world.join(members[2]))
    assert [member.member_id for member in reply_to_last.members] == [members[2]]


def test_leaving_twice_or_nowhere_is_refused_and_changes_nothing() -> None:
    world = GroupWorld()
    assert world.leave(("m", None)).members[0].error_code == UnknownMemberId.code
    assert world.leave(("m", None), group_id=GroupId("")).error_code == InvalidGroupId.code
    world.stable()
    before = everything(world.groups)
    assert world.leave(("m", None), ("", None)).members[1].error_code == UnknownMemberId.code
    assert everything(world.groups) == before


def test_a_waiting_join_of_a_member_that_leaves_is_answered() -> None:
    world = GroupWorld()
    (old,), _ = world.stable()
    new, ticket = world.enter()
    world.leave((new, None))
    assert world.joined(ticket).error_code == UnknownMemberId.code
    assert world.joined(world.join(old)).generation == 2


def test_a_waiting_sync_of_a_member_that_leaves_is_answered() -> None:
    world = GroupWorld()
    _, follower = completing(world)
    ticket = world.sync(follower, 1)
    world.leave((follower, None))
    assert world.synced(ticket).error_code == UnknownMemberId.code


def test_a_group_that_everyone_left_is_recorded_as_empty() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.leave((member, None))
    record = world.records[-1]
    assert isinstance(record, GenerationRecorded)
    assert (record.generation, record.members) == (generation + 1, ())
    assert (record.protocol, record.leader, record.protocol_type) == (None, None, "consumer")
    assert world.state() == "Empty"
    # The next generation goes on counting.
    _, ticket = world.enter()
    world.pass_time(SESSION_MS - 1)
    assert world.joined(ticket).generation == generation + 2


def test_everyone_that_leaves_before_the_first_generation_leaves_an_empty_group() -> None:
    world = GroupWorld()
    member, ticket = world.enter()
    world.leave((member, None))
    assert world.joined(ticket).error_code == UnknownMemberId.code
    assert world.state() == "Empty"


def test_a_first_rebalance_that_everyone_has_left_waits_for_no_more_members() -> None:
    world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=SESSION_MS))
    members = [world.enter()[0] for _ in range(2)]
    world.join()
    world.leave(*((member, None) for member in members))
    assert world.state() == "PreparingRebalance"
    world.pass_time(SESSION_MS)
    assert world.state() == "Empty"


@pytest.mark.parametrize("restart", [GroupWorld.restart, GroupWorld.restart_from_snapshot])
def test_after_a_restart_members_go_on_without_a_rebalance(restart: object) -> None:
    world = GroupWorld()
    (leader, follower), generation = world.stable(2)
    world.pass_time(SESSION_MS - 1)
    assert callable(restart)
    restart(world)
    # A full session from the restart on, however little was left of the old one.
    world.pass_time(SESSION_MS - 1)
    assert world.heartbeat(leader, generation) == NONE
    assert world.synced(world.sync(follower, generation)).assignment
    world.pass_time(SESSION_MS - 1)
    assert world.heartbeat(leader, generation) == NONE
    world.pass_time(1)
    assert world.heartbeat(follower, generation) == UnknownMemberId.code


def test_a_rebalance_that_a_restart_cut_short_starts_from_the_recorded_generation() -> None:
    world = GroupWorld()
    (old,), generation = world.stable()
    new, new_ticket = world.enter()
    world.join(old)
    assert world.joined(new_ticket).generation == generation + 1
    world.restart()
    assert world.state() == "Stable"
    assert world.heartbeat(old, generation + 1) == IllegalGeneration.code
    assert world.heartbeat(new, generation + 1) == UnknownMemberId.code
    assert world.joined(world.join(old)).generation == generation + 1


def test_a_recovered_group_that_is_too_large_sheds_the_last_to_rejoin() -> None:
    world = GroupWorld()
    members, generation = world.stable(3)
    world.settings = GroupSettings(member_count_max=2)
    world.restart()
    assert world.heartbeat(members[0], generation) == RebalanceInProgress.code
    tickets = [world.join(member) for member in members]
    assert world.joined(tickets[2]).error_code == 81
    world.pass_time(SESSION_MS)
    assert {m.member_id for m in world.joined(tickets[0]).members} == set(members[:2])


def test_a_group_is_described_with_assignments_only_when_stable() -> None:
    world = GroupWorld()
    (member,), _ = world.stable()
    described = world.groups.describe(GROUP)
    assert described is not None
    assert (described.state, described.protocol, described.protocol_type) == (
        "Stable",
        "range",
        "consumer",
    )
    (shown,) = described.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member, "client", "/127.0.0.1")
    assert shown.assignment == f"for {member}".encode()
    assert shown.metadata
    world.enter()
    described = world.groups.describe(GROUP)
    assert described is not None
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert {(m.metadata, m.assignment) for m in described.members} == {(b"", b"")}
    assert world.groups.describe(GroupId("none")) is None


def test_groups_are_listed_with_their_states() -> None:
    world = GroupWorld()
    world.stable()
    world.commit(1, group_id=GroupId("simple"))
    listed = list(world.groups.listed())
    assert [(g.group_id, g.protocol_type, g.state) for g in listed] == [
        (GROUP, "consumer", "Stable"),
        (GroupId("simple"), "", "Empty"),
    ]


def test_the_states_form_a_table_without_holes() -> None:
    assert set(FOLLOWERS) == set(State)
    assert FOLLOWERS[State.DEAD] == frozenset()
