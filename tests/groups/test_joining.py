"""JoinGroup: who gets in, when the rebalance ends, and what each is told."""

import pytest

from semel.errors import (
    NONE,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from semel.groups.commands import Protocol
from semel.groups.settings import GroupSettings
from semel.types import GroupId, MemberId
from support.group_world import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    GroupWorld,
    everything,
    subscription,
)

DELAY_MS = GroupSettings().initial_rebalance_delay_ms
RANGE = Protocol("range", subscription("t"))
STICKY = Protocol("cooperative-sticky", subscription("t"))
ROUND = Protocol("roundrobin", subscription("t"))


def test_a_new_member_is_first_told_its_id_and_asked_to_come_again() -> None:
    world = GroupWorld()
    reply = world.joined(world.join())
    assert reply.error_code == MemberIdRequired.code
    assert reply.member_id.startswith("client-")
    assert world.state() == "Empty"


def test_before_version_4_a_new_member_joins_at_once() -> None:
    world = GroupWorld()
    ticket = world.join(returns_with_member_id=False)
    world.pass_time(DELAY_MS)
    assert world.joined(ticket).error_code == NONE


def test_the_first_rebalance_waits_for_more_members() -> None:
    world = GroupWorld()
    _, ticket = world.enter()
    world.pass_time(DELAY_MS - 1)
    assert ticket not in world.replies
    world.pass_time(1)
    assert world.joined(ticket).generation == 1


def test_each_newcomer_prolongs_the_first_rebalance_by_another_delay() -> None:
    world = GroupWorld()
    _, first = world.enter()
    world.pass_time(DELAY_MS - 1)
    _, second = world.enter()
    world.pass_time(DELAY_MS)
    assert first not in world.replies
    world.pass_time(1)
    assert world.joined(first).generation == world.joined(second).generation == 1


def test_newcomers_cannot_prolong_the_first_rebalance_beyond_its_timeout() -> None:
    world = GroupWorld()
    _, first = world.enter(rebalance_timeout_ms=3 * DELAY_MS)
    elapsed_ms = 0
    while first not in world.replies:
        world.enter(rebalance_timeout_ms=3 * DELAY_MS)
        world.pass_time(500)
        elapsed_ms += 500
    assert elapsed_ms == 3 * DELAY_MS


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=0))
    _, ticket = world.enter()
    assert world.joined(ticket).generation == 1


def test_only_the_leader_is_told_the_members_and_their_metadata() -> None:
    world = GroupWorld()
    entered = [world.enter(client_id=f"c{n}") for n in range(3)]
    world.pass_time(3 * DELAY_MS)
    replies = [world.joined(ticket) for _, ticket in entered]
    assert {reply.leader for reply in replies} == {entered[0][0]}
    told = [sorted(member.member_id for member in reply.members) for reply in replies]
    assert told == [sorted(member for member, _ in entered), [], []]
    assert {member.metadata for member in replies[0].members} == {subscription("t")}


def test_the_protocol_is_what_most_prefer_among_what_all_speak() -> None:
    world = GroupWorld()
    wishes = [(ROUND, RANGE, STICKY), (STICKY, RANGE), (STICKY, RANGE), (RANGE, STICKY)]
    entered = [world.enter(protocols=wish) for wish in wishes]
    world.pass_time(3 * DELAY_MS)
    # Two votes for sticky, two for range (round robin is not spoken by all): the first met wins.
    assert {world.joined(ticket).protocol_name for _, ticket in entered} == {"range"}
    assert {world.joined(ticket).protocol_type for _, ticket in entered} == {"consumer"}


def test_a_member_that_shares_no_protocol_is_refused() -> None:
    world = GroupWorld()
    world.stable()
    for changes in ({"protocols": (STICKY,)}, {"protocol_type": "connect"}, {"protocols": ()}):
        before = everything(world.groups)
        ticket = world.join(**changes)
        assert world.joined(ticket).error_code == InconsistentGroupProtocol.code
        assert everything(world.groups) == before


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_out_of_bounds_is_refused(session_timeout_ms: int) -> None:
    world = GroupWorld()
    ticket = world.join(session_timeout_ms=session_timeout_ms)
    assert world.joined(ticket).error_code == InvalidSessionTimeout.code
    assert list(world.groups.listed()) == []


def test_ids_that_cannot_be_stored_are_refused() -> None:
    world = GroupWorld()
    for group_id in (GroupId(""), GroupId("g" * 40_000)):
        ticket = world.join(group_id=group_id)
        assert world.joined(ticket).error_code == InvalidGroupId.code
    ticket = world.join(group_instance_id="i" * 250)
    assert world.joined(ticket).error_code == InvalidRequest.code
    ticket = world.join(protocol_type="p" * 40_000)
    assert world.joined(ticket).error_code == InconsistentGroupProtocol.code
    assert list(world.groups.listed()) == []


def test_a_client_id_of_any_size_gives_a_member_id_that_fits() -> None:
    world = GroupWorld()
    reply = world.joined(world.join(client_id="ü" * 16_000))
    assert len(reply.member_id.encode()) < 1_000


def test_an_unknown_member_id_is_refused_with_and_without_a_group() -> None:
    world = GroupWorld()
    assert world.joined(world.join(MemberId("ghost"))).error_code == UnknownMemberId.code
    assert list(world.groups.listed()) == []
    world.stable()
    assert world.joined(world.join(MemberId("ghost"))).error_code == UnknownMemberId.code


def test_a_group_takes_no_more_members_than_it_may() -> None:
    world = GroupWorld(GroupSettings(member_count_max=2))
    members, generation = world.stable(2)
    before = everything(world.groups)
    assert world.joined(world.join()).error_code == GroupMaxSizeReached.code
    assert everything(world.groups) == before
    assert world.heartbeat(members[1], generation) == NONE
    ticket = world.join(members[0])
    assert ticket not in world.replies


def test_a_newcomer_makes_every_member_join_again() -> None:
    world = GroupWorld()
    (old,), generation = world.stable()
    _, new_ticket = world.enter()
    assert world.heartbeat(old, generation) == RebalanceInProgress.code
    assert new_ticket not in world.replies
    old_ticket = world.join(old)
    assert world.joined(old_ticket).generation == world.joined(new_ticket).generation == 2
    assert world.joined(old_ticket).leader == old


def test_who_does_not_rejoin_within_the_rebalance_timeout_is_out() -> None:
    world = GroupWorld()
    (old,), generation = world.stable(session_timeout_ms=300_000)
    _, ticket = world.enter(session_timeout_ms=300_000)
    world.pass_time(REBALANCE_MS - 1)
    assert ticket not in world.replies
    assert world.heartbeat(old, generation) == RebalanceInProgress.code
    world.pass_time(1)
    reply = world.joined(ticket)
    assert (reply.generation, len(reply.members)) == (2, 1)
    assert world.heartbeat(old, 2) == UnknownMemberId.code


def test_a_rebalance_waits_for_those_who_were_told_their_id() -> None:
    world = GroupWorld()
    (old,), _ = world.stable()
    pending = world.joined(world.join()).member_id
    new, new_ticket = world.enter()
    old_ticket = world.join(old)
    assert new_ticket not in world.replies
    pending_ticket = world.join(pending)
    tickets = (old_ticket, new_ticket, pending_ticket)
    assert {world.joined(ticket).generation for ticket in tickets} == {2}
    assert len({old, new, pending}) == 3


def test_a_rebalance_goes_on_when_one_that_was_told_its_id_never_returns() -> None:
    world = GroupWorld()
    world.stable(session_timeout_ms=300_000)
    pending = world.joined(world.join()).member_id
    _, ticket = world.enter(session_timeout_ms=300_000)
    world.join(world.groups.describe(GROUP).members[0].member_id)  # type: ignore[union-attr]
    world.pass_time(SESSION_MS - 1)
    assert ticket not in world.replies
    world.pass_time(1)
    assert world.joined(ticket).error_code == NONE
    assert world.joined(world.join(pending)).error_code == UnknownMemberId.code


def test_a_rebalance_goes_on_when_the_ids_that_were_given_out_are_forgotten() -> None:
    world = GroupWorld()
    (old,), _ = world.stable()
    pending = [world.joined(world.join()).member_id for _ in range(3)]
    _, new_ticket = world.enter()
    old_ticket = world.join(old)
    world.forget_ids(*pending[:2])
    assert new_ticket not in world.replies
    world.forget_ids(pending[2])
    assert world.joined(new_ticket).generation == world.joined(old_ticket).generation == 2
    for member_id in pending:
        assert world.joined(world.join(member_id)).error_code == UnknownMemberId.code


def test_an_id_that_is_in_use_is_not_forgotten() -> None:
    world = GroupWorld()
    (old,), _ = world.stable()
    world.forget_ids(old)
    assert [member.member_id for member in world.joined(world.join(old)).members] == [old]


def test_a_group_of_nobody_but_a_lost_newcomer_is_forgotten() -> None:
    world = GroupWorld()
    world.join()
    world.pass_time(SESSION_MS)
    assert list(world.groups.listed()) == []


def test_a_follower_that_joins_again_unchanged_is_told_the_standing_generation() -> None:
    world = GroupWorld()
    (leader, follower), generation = world.stable(2)
    reply = world.joined(world.join(follower))
    assert (reply.generation, reply.leader, reply.members) == (generation, leader, ())
    assert world.state() == "Stable"


def test_a_leader_that_joins_again_moves_the_group() -> None:
    world = GroupWorld()
    (leader, follower), generation = world.stable(2)
    ticket = world.join(leader)
    assert ticket not in world.replies
    assert world.heartbeat(follower, generation) == RebalanceInProgress.code


def test_a_follower_with_another_subscription_moves_the_group() -> None:
    world = GroupWorld()
    (_, follower), _ = world.stable(2)
    ticket = world.join(follower, protocols=(Protocol("range", subscription("t", "u")),))
    assert ticket not in world.replies
    assert world.state() == "PreparingRebalance"


def test_a_lost_join_reply_can_be_asked_for_again() -> None:
    world = GroupWorld()
    member, ticket = world.enter()
    world.pass_time(DELAY_MS)
    again = world.join(member)
    assert world.joined(again) == world.joined(ticket)


def test_a_second_join_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    world = GroupWorld()
    member, first = world.enter()
    second = world.join(member)
    assert world.joined(first).error_code == RebalanceInProgress.code
    world.pass_time(DELAY_MS)
    assert world.joined(second).error_code == NONE


def test_a_new_member_waits_no_longer_than_five_minutes() -> None:
    world = GroupWorld()
    (old,), generation = world.stable(rebalance_timeout_ms=600_000)
    _, ticket = world.enter(rebalance_timeout_ms=600_000)
    for _ in range(60):
        world.pass_time(5_000)
        world.heartbeat(old, generation)
    assert world.joined(ticket).error_code == UnknownMemberId.code
    assert world.joined(ticket).member_id == ""


def test_a_new_member_whose_connection_breaks_while_it_waits_is_out() -> None:
    world = GroupWorld()
    (old,), _ = world.stable()
    new, new_ticket = world.enter()
    world.forget(new_ticket)
    old_ticket = world.join(old)
    assert [member.member_id for member in world.joined(old_ticket).members] == [old]
    assert new_ticket not in world.replies
    assert world.joined(world.join(new)).error_code == UnknownMemberId.code


def test_an_old_member_whose_connection_breaks_while_it_waits_stays() -> None:
    world = GroupWorld()
    (old,), _ = world.stable()
    world.enter()
    pending = world.joined(world.join()).member_id
    old_ticket = world.join(old)
    world.forget(old_ticket)
    world.leave((pending, None))
    assert old_ticket not in world.replies
    reply = world.joined(world.join(old))
    assert (reply.generation, reply.leader, len(reply.members)) == (2, old, 2)


def test_a_member_may_change_its_timeouts_when_it_joins_again() -> None:
    world = GroupWorld()
    (member,), _ = world.stable()
    ticket = world.join(member, session_timeout_ms=3 * SESSION_MS)
    world.assign([member], world.joined(ticket).generation)
    world.pass_time(3 * SESSION_MS - 1)
    assert world.heartbeat(member, world.joined(ticket).generation) == NONE


def test_an_abandoned_group_may_be_taken_over_by_another_kind_of_client() -> None:
    world = GroupWorld()
    (member,), _ = world.stable()
    world.leave((member, None))
    _, ticket = world.enter(protocol_type="connect", protocols=(Protocol("sessioned", b""),))
    world.pass_time(DELAY_MS)
    assert world.joined(ticket).protocol_type == "connect"
