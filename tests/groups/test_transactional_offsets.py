"""Offsets committed within transactions: pending until the marker, ordered by the log."""

from semel.errors import (
    NONE,
    FencedInstanceId,
    IllegalGeneration,
    InvalidGroupId,
    NonEmptyGroup,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from semel.groups.commands import FetchOffsets
from semel.groups.records import GroupForgotten
from semel.groups.settings import GroupSettings
from semel.types import GroupId, MemberId, ProducerId
from support.group_world import GROUP, GroupWorld, everything

ONE, TWO = ProducerId(1), ProducerId(2)


def test_a_pending_offset_is_not_read_and_says_so_to_who_requires_stability() -> None:
    world = GroupWorld()
    world.commit(5)
    assert world.commit(9, producer_id=ONE) == NONE
    assert world.fetch() == (5, NONE)
    assert world.fetch(require_stable=True) == (-1, UnstableOffsetCommit.code)
    assert world.fetch("other", require_stable=True) == (-1, NONE)


def test_the_marker_makes_an_offset_final_or_undoes_it() -> None:
    world = GroupWorld()
    world.commit(5, producer_id=ONE)
    world.commit(6, topic="u", producer_id=TWO)
    world.end_transaction(ONE, committed=True)
    world.end_transaction(TWO, committed=False)
    assert world.fetch(require_stable=True) == (5, NONE)
    assert world.fetch("u", require_stable=True) == (-1, NONE)


def test_a_committed_transaction_replaces_what_stood_before_it() -> None:
    world = GroupWorld()
    world.commit(5)
    world.commit(3, producer_id=ONE)
    world.end_transaction(ONE, committed=True)
    assert world.fetch() == (3, NONE)


def test_the_later_commit_in_the_log_wins_and_not_the_later_marker() -> None:
    world = GroupWorld()
    world.commit(5, producer_id=ONE)
    world.commit(6, producer_id=TWO)
    world.end_transaction(TWO, committed=True)
    world.end_transaction(ONE, committed=True)
    assert world.fetch() == (6, NONE)
    world.commit(7, producer_id=ONE)
    world.commit(8)
    world.end_transaction(ONE, committed=True)
    assert world.fetch() == (8, NONE)


def test_the_order_in_the_log_survives_a_checkpoint() -> None:
    world = GroupWorld()
    world.commit(5, producer_id=ONE)
    world.commit(6)
    world.restart_from_snapshot()
    assert world.fetch(require_stable=True) == (-1, UnstableOffsetCommit.code)
    world.commit(7, topic="u", producer_id=TWO)
    world.end_transaction(ONE, committed=True)
    assert world.fetch(require_stable=True) == (6, NONE)


def test_a_deleted_offset_is_not_revived_by_an_older_commit_that_becomes_final() -> None:
    world = GroupWorld()
    world.commit(5)
    world.commit(6, producer_id=ONE)
    world.delete_offsets("t")
    world.end_transaction(ONE, committed=True)
    assert world.fetch() == (-1, NONE)


def test_all_offsets_of_a_group_name_the_pending_ones_to_who_requires_stability() -> None:
    world = GroupWorld()
    world.commit(5)
    world.commit(6, topic="u", producer_id=ONE)
    relaxed = world.groups.fetch_offsets(FetchOffsets(GROUP, None))
    strict = world.groups.fetch_offsets(FetchOffsets(GROUP, None, require_stable=True))
    assert [(f.partition.topic, f.error_code) for f in relaxed] == [("t", NONE)]
    assert [(f.partition.topic, f.error_code) for f in strict] == [
        ("t", NONE),
        ("u", UnstableOffsetCommit.code),
    ]


def test_a_producer_that_names_a_member_is_fenced_by_its_generation() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    before = everything(world.groups)
    assert world.commit(5, member, generation - 1, producer_id=ONE) == IllegalGeneration.code
    assert world.commit(5, MemberId("ghost"), generation, producer_id=ONE) == UnknownMemberId.code
    assert world.commit(5, MemberId("ghost"), -1, producer_id=ONE) == UnknownMemberId.code
    assert everything(world.groups) == before
    assert world.commit(5, member, generation, producer_id=ONE) == NONE


def test_a_producer_that_names_a_static_member_is_fenced_by_its_instance() -> None:
    world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=0))
    old = world.joined(world.join(group_instance_id="one")).member_id
    world.assign([old], 1)
    new = world.joined(world.join(group_instance_id="one")).member_id
    fenced = world.commit(5, old, 1, producer_id=ONE, group_instance_id="one")
    assert fenced == FencedInstanceId.code
    assert world.commit(5, new, 1, producer_id=ONE, group_instance_id="one") == NONE


def test_a_producer_that_names_no_member_is_not_fenced() -> None:
    world = GroupWorld()
    world.stable()
    assert world.commit(5, producer_id=ONE) == NONE


def test_a_generation_of_no_group_is_refused_and_no_group_id_at_all_too() -> None:
    world = GroupWorld()
    assert world.commit(5, MemberId("m"), 1, producer_id=ONE) == IllegalGeneration.code
    assert world.commit(5, producer_id=ONE, group_id=GroupId("")) == InvalidGroupId.code
    assert list(world.groups.listed()) == []


def test_a_member_may_commit_in_a_transaction_before_the_new_assignment() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.enter()
    world.join(member)
    assert world.state() == "CompletingRebalance"
    assert world.commit(5, member, generation + 1, producer_id=ONE) == NONE


def test_a_group_with_pending_offsets_is_neither_deleted_nor_expired() -> None:
    world = GroupWorld()
    world.commit(5)
    world.commit(6, producer_id=ONE)
    assert world.delete(GROUP) == [NonEmptyGroup.code]
    world.pass_time(2 * world.settings.offsets_retention_ms)
    assert world.fetch() == (5, NONE)
    world.end_transaction(ONE, committed=False)
    world.pass_time(world.settings.retention_check_interval_ms)
    assert list(world.groups.listed()) == []


def test_an_empty_group_is_not_forgotten_while_its_only_offset_is_pending() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.commit(5, member, generation, producer_id=ONE)
    world.leave((member, None))
    world.pass_time(2 * world.settings.retention_check_interval_ms)
    assert GroupForgotten(GROUP) not in world.records
    world.end_transaction(ONE, committed=True)
    assert world.fetch() == (5, NONE)


def test_a_group_of_nothing_but_an_aborted_transaction_is_gone() -> None:
    world = GroupWorld()
    world.commit(5, producer_id=ONE)
    world.end_transaction(ONE, committed=False)
    assert list(world.groups.listed()) == []


def test_an_end_of_a_transaction_without_offsets_is_nothing() -> None:
    world = GroupWorld()
    world.commit(5)
    before = everything(world.groups)
    world.end_transaction(TWO, committed=True)
    assert everything(world.groups) == before
