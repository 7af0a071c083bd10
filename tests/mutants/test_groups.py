"""The rules of consumer groups are left out one by one; a named test must find each absence."""

from collections.abc import Callable
from typing import Any

import pytest

from groups import (
    test_bounded_steps,
    test_joining,
    test_offsets,
    test_purity,
    test_rebalance,
    test_static_members,
    test_transactional_offsets,
)
from groups.test_schedules import Run
from semel.deadlines import Deadlines
from semel.groups import coordinator, expiring, joining, leaving, rebalance
from semel.groups.deciding import Deciding, GroupDecision
from semel.groups.lasting import Offsets
from semel.groups.membership import Membership
from semel.groups.records import GenerationRecorded, GroupRecord
from semel.groups.volatile import Sessions, VolatileGroup
from semel.world import Moment
from support.group_world import GroupWorld

Plant = Callable[[pytest.MonkeyPatch], None]
Kill = Callable[[], None]


def schedules() -> None:
    for seed in range(40):
        Run(seed).go(300)


def living_clients() -> None:
    for seed in range(8):
        test_purity.test_no_decision_about_living_clients_changes_anything(seed)


# Time and recovery (rule 9)


def a_restart_gives_no_new_session(patch: pytest.MonkeyPatch) -> None:
    start_sessions = coordinator.Groups.start_sessions

    def without_session(groups: coordinator.Groups, at: Moment) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                Deciding,
                "renew_session",
                lambda deciding, member: deciding.begin_session(member.member_id, at.now_ms),
            )
            start_sessions(groups, at)

    patch.setattr(coordinator.Groups, "start_sessions", without_session)


def a_generation_is_never_written(patch: pytest.MonkeyPatch) -> None:
    write = Deciding.write

    def skip_generations(deciding: Deciding, record: GroupRecord) -> None:
        if not isinstance(record, GenerationRecorded):
            write(deciding, record)

    patch.setattr(Deciding, "write", skip_generations)


def offsets_age_while_the_group_lives(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "subscribed_topics", lambda group: frozenset())


# Members


def a_generation_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "check_generation", lambda group, generation: None)


def an_instance_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    member = Membership.member
    patch.setattr(Membership, "member", lambda group, member_id, _: member(group, member_id, None))


def a_rebalance_waits_for_no_one_that_was_told_its_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deciding, "expects_more", lambda deciding, group: False)


def who_is_removed_is_not_answered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        leaving,
        "_dismiss_for_good",
        lambda member, deciding: deciding.end_session(member.member_id),
    )


def a_new_rebalance_forgets_those_who_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebalance, "dismissed", lambda member, code, deciding: member)


def a_returned_static_member_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    replace = joining._replace_static

    def unrecorded(*arguments: Any) -> Membership:
        deciding = arguments[-1]
        count = len(deciding.records)
        group = replace(*arguments)
        del deciding.records[count:]
        return group

    patch.setattr(joining, "_replace_static", unrecorded)


def a_refused_join_creates_the_group(patch: pytest.MonkeyPatch) -> None:
    find = coordinator.Groups._group_to_join

    def create(groups: coordinator.Groups, command: Any) -> Membership:
        volatile = groups._volatile
        if command.group_id not in volatile.by_id:
            group = VolatileGroup(Membership(command.group_id))
            volatile.by_id[command.group_id] = group
            group.number = volatile.arrivals.add(group)
        return find(groups, command)

    patch.setattr(coordinator.Groups, "_group_to_join", create)


# Decisions


def a_decision_is_adopted_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    decide = coordinator.Groups.decide

    def hasty(groups: coordinator.Groups, *arguments: Any) -> GroupDecision:
        decided = decide(groups, *arguments)
        groups.adopt(decided)
        return decided

    patch.setattr(coordinator.Groups, "decide", hasty)


def whoever_looks_at_what_is_due_takes_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deadlines, "all_due", lambda self, now_ms: iter(self.take_due(now_ms)))


def a_session_that_was_renewed_is_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sessions, "looked_at", lambda self, due_ms: self._deadlines.take_due(due_ms))


def a_step_of_expiry_has_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiring, "size_alone", lambda record: 0)


# Transactional offsets


def the_later_marker_wins(patch: pytest.MonkeyPatch) -> None:
    def end(offsets: Offsets, producer_id: Any, committed: bool) -> None:
        pending = offsets.pending.pop(producer_id, {})
        if committed:
            offsets.committed.update(pending)

    patch.setattr(Offsets, "apply_marker", end)


def pending_offsets_look_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Offsets, "is_pending", lambda offsets, partition: False)


def a_deleted_offset_stays_pending(patch: pytest.MonkeyPatch) -> None:
    def forget(offsets: Offsets, partition: Any) -> None:
        offsets.committed.pop(partition, None)

    patch.setattr(Offsets, "forget", forget)


KILLED: list[tuple[Plant, Kill]] = [
    (
        a_restart_gives_no_new_session,
        lambda: test_rebalance.test_after_a_restart_members_go_on_without_a_rebalance(
            GroupWorld.restart
        ),
    ),
    (
        a_generation_is_never_written,
        test_rebalance.test_a_generation_is_recorded_when_the_leader_assigns_and_not_before,
    ),
    (
        offsets_age_while_the_group_lives,
        test_offsets.test_a_living_group_keeps_the_offsets_of_the_topics_it_reads,
    ),
    (a_generation_is_not_checked, test_offsets.test_a_member_commits_in_its_generation_only),
    (a_generation_is_not_checked, schedules),
    (
        a_generation_is_not_checked,
        test_transactional_offsets.test_a_producer_that_names_a_member_is_fenced_by_its_generation,
    ),
    (
        an_instance_is_not_fenced,
        test_static_members.test_the_old_incarnation_of_a_returned_static_member_is_fenced,
    ),
    (
        a_rebalance_waits_for_no_one_that_was_told_its_id,
        test_joining.test_a_rebalance_waits_for_those_who_were_told_their_id,
    ),
    (
        who_is_removed_is_not_answered,
        test_rebalance.test_a_waiting_join_of_a_member_that_leaves_is_answered,
    ),
    (who_is_removed_is_not_answered, schedules),
    (a_new_rebalance_forgets_those_who_wait, schedules),
    (
        a_returned_static_member_is_not_recorded,
        test_static_members.test_a_returned_static_member_is_known_after_a_restart_by_its_new_id,
    ),
    (
        a_refused_join_creates_the_group,
        test_joining.test_an_unknown_member_id_is_refused_with_and_without_a_group,
    ),
    (a_decision_is_adopted_before_it_is_written, living_clients),
    (whoever_looks_at_what_is_due_takes_it, living_clients),
    (a_session_that_was_renewed_is_not_looked_at_again, living_clients),
    (a_session_that_was_renewed_is_not_looked_at_again, schedules),
    (
        a_step_of_expiry_has_no_bound,
        test_bounded_steps.test_many_groups_that_end_together_end_in_bounded_steps,
    ),
    (
        the_later_marker_wins,
        test_transactional_offsets.test_the_later_commit_in_the_log_wins_and_not_the_later_marker,
    ),
    (
        pending_offsets_look_stable,
        test_transactional_offsets.test_a_pending_offset_is_not_read_and_says_so_to_who_requires_stability,
    ),
    (
        a_deleted_offset_stays_pending,
        test_transactional_offsets.test_a_deleted_offset_is_not_revived_by_an_older_commit_that_becomes_final,
    ),
]


@pytest.mark.parametrize(
    ("plant", "kill"), KILLED, ids=[f"{plant.__name__}-{kill.__name__}" for plant, kill in KILLED]
)
def test_a_planted_bug_is_killed(plant: Plant, kill: Kill, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        kill()
