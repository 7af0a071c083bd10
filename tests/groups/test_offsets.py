"""Committed offsets: who may commit, what is read back, and when they are forgotten."""

import pytest

from semel.errors import (
    NONE,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    InvalidTopic,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
)
from semel.groups.commands import (
    CommitOffsets,
    CommitReply,
    FetchedOffset,
    FetchOffsets,
    ForgetTopic,
    OffsetToCommit,
    Protocol,
)
from semel.groups.lasting import GroupsSnapshot, OffsetInSnapshot
from semel.groups.records import (
    GenerationRecorded,
    GroupForgotten,
    OffsetCommitted,
    OffsetForgotten,
)
from semel.groups.settings import GroupSettings
from semel.types import GroupId, MemberId, TopicPartition
from support.group_world import (
    GROUP,
    NOBODY,
    SESSION_MS,
    START_MS,
    GroupWorld,
    everything,
    subscription,
)

RETENTION_MS = GroupSettings().offsets_retention_ms
CHECK_MS = GroupSettings().retention_check_interval_ms
DAY_MS = 86_400_000


def test_an_offset_is_read_back_as_it_was_committed() -> None:
    world = GroupWorld()
    asked = (OffsetToCommit("t", 0, 5, 3, "héllo"), OffsetToCommit("u", 9, 2**40))
    world.commit(0, offsets=asked)
    command = FetchOffsets(GROUP, None)
    assert world.groups.fetch_offsets(command) == (
        FetchedOffset(TopicPartition("t", 0), 5, 3, "héllo"),
        FetchedOffset(TopicPartition("u", 9), 2**40, -1, ""),
    )


def test_what_was_never_committed_is_minus_one_and_no_error() -> None:
    world = GroupWorld()
    assert world.fetch() == (-1, NONE)
    assert world.groups.fetch_offsets(FetchOffsets(GROUP, None)) == ()
    world.commit(5)
    assert world.fetch("other") == (-1, NONE)
    assert next(world.groups.listed()).group_id == GROUP


def test_the_last_commit_counts() -> None:
    world = GroupWorld()
    for offset in (5, 9, 7):
        world.commit(offset)
    assert world.fetch() == (7, NONE)


def test_a_member_commits_in_its_generation_only() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    assert world.commit(5, member, generation) == NONE
    before = everything(world.groups)
    assert world.commit(6, member, generation - 1) == IllegalGeneration.code
    assert world.commit(6, member, generation + 1) == IllegalGeneration.code
    assert world.commit(6, MemberId("ghost"), generation) == UnknownMemberId.code
    assert world.commit(6, member, -1) == IllegalGeneration.code
    assert world.commit(6) == UnknownMemberId.code
    assert everything(world.groups) == before
    assert world.fetch() == (5, NONE)


def test_a_generation_of_a_group_that_is_not_there_is_refused() -> None:
    world = GroupWorld()
    assert world.commit(5, MemberId("m"), 3) == IllegalGeneration.code
    assert list(world.groups.listed()) == []


def test_a_member_may_commit_while_a_rebalance_is_being_prepared() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.enter()
    assert world.commit(5, member, generation) == NONE


def test_no_one_may_commit_before_the_new_assignment() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.enter()
    world.join(member)
    assert world.state() == "CompletingRebalance"
    assert world.commit(5, member, generation + 1) == RebalanceInProgress.code
    assert world.commit(5, member, generation) == IllegalGeneration.code


def test_anyone_may_commit_for_a_group_without_members() -> None:
    world = GroupWorld()
    (member,), _ = world.stable()
    world.leave((member, None))
    assert world.commit(5) == NONE
    assert world.commit(6, MemberId("whoever"), -1) == NONE
    assert world.fetch() == (6, NONE)


def test_a_commit_is_a_sign_of_life() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    for offset in range(3):
        world.pass_time(SESSION_MS - 1)
        assert world.commit(offset, member, generation) == NONE
    world.pass_time(SESSION_MS)
    assert world.heartbeat(member, generation) == UnknownMemberId.code


def test_too_much_metadata_is_refused_for_its_partition_alone() -> None:
    world = GroupWorld()
    offsets = (
        OffsetToCommit("t", 0, 5, metadata="x" * 4_097),
        OffsetToCommit("t", 1, 6, metadata="x" * 4_096),
        OffsetToCommit("t" * 250, 0, 7),
    )
    ticket = world.ask(CommitOffsets(GROUP, -1, NOBODY, None, offsets))
    codes = [p.error_code for p in world.reply(ticket, CommitReply).partitions]
    assert codes == [OffsetMetadataTooLarge.code, NONE, InvalidTopic.code]
    fetched = world.groups.fetch_offsets(FetchOffsets(GROUP, None))
    assert [(f.partition.partition, f.offset) for f in fetched] == [(1, 6)]


def test_the_empty_group_id_may_store_offsets_as_it_always_could() -> None:
    world = GroupWorld()
    assert world.commit(5, group_id=GroupId("")) == NONE
    assert world.commit(5, group_id=GroupId("g" * 40_000)) == InvalidGroupId.code


@pytest.mark.parametrize("restart", [GroupWorld.restart, GroupWorld.restart_from_snapshot])
def test_offsets_survive_a_restart(restart: object) -> None:
    world = GroupWorld()
    world.commit(5)
    world.commit(8, topic="u")
    world.delete_offsets("u")
    assert callable(restart)
    restart(world)
    assert world.fetch() == (5, NONE)
    assert world.fetch("u") == (-1, NONE)


# Deleting


def test_a_group_with_members_is_not_deleted() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.commit(5, member, generation)
    assert world.delete(GROUP, GroupId("none")) == [NonEmptyGroup.code, GroupIdNotFound.code]
    assert world.fetch() == (5, NONE)


def test_a_deleted_group_is_gone_with_its_offsets_also_after_a_restart() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.commit(5, member, generation)
    world.leave((member, None))
    assert world.delete(GROUP, GROUP) == [NONE]
    for _ in range(2):
        assert world.state() == "Dead"
        assert world.fetch() == (-1, NONE)
        assert list(world.groups.listed()) == []
        world.restart()


def test_a_group_of_offsets_alone_can_be_deleted() -> None:
    world = GroupWorld()
    world.commit(5)
    assert world.delete(GROUP) == [NONE]
    assert list(world.groups.listed()) == []


def test_a_group_that_someone_is_about_to_join_can_be_deleted() -> None:
    world = GroupWorld()
    pending = world.joined(world.join()).member_id
    assert world.delete(GROUP) == [NONE]
    assert list(world.groups.listed()) == []
    assert world.joined(world.join(pending)).error_code == UnknownMemberId.code


def test_the_offsets_of_a_subscribed_topic_are_not_deleted() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.commit(5, member, generation, "t")
    world.commit(6, member, generation, "old")
    reply = world.delete_offsets("t", "old", "never")
    codes = [partition.error_code for partition in reply.partitions]
    assert (reply.error_code, codes) == (NONE, [GroupSubscribedToTopic.code, NONE, NONE])
    assert (world.fetch("t"), world.fetch("old")) == ((5, NONE), (-1, NONE))


def test_metadata_that_cannot_be_read_may_name_any_topic() -> None:
    world = GroupWorld()
    (member,), generation = world.stable(protocols=(Protocol("range", b"\x00"),))
    world.commit(6, member, generation, "old")
    reply = world.delete_offsets("old")
    assert reply.partitions[0].error_code == GroupSubscribedToTopic.code


def test_offsets_of_members_that_are_no_consumers_are_not_deleted() -> None:
    world = GroupWorld()
    (member,), generation = world.stable(protocol_type="connect")
    world.commit(6, member, generation)
    assert world.delete_offsets("t").error_code == NonEmptyGroup.code


def test_the_offsets_of_a_group_without_members_can_be_deleted() -> None:
    world = GroupWorld()
    assert world.delete_offsets("t").error_code == GroupIdNotFound.code
    world.commit(5)
    world.commit(6, topic="u")
    assert world.delete_offsets("t").partitions[0].error_code == NONE
    assert (world.fetch("t"), world.fetch("u")) == ((-1, NONE), (6, NONE))


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    world = GroupWorld()
    world.commit(5)
    world.commit(6, topic="u")
    decided = world.take(ForgetTopic("t"))
    assert decided.records == (OffsetForgotten(GROUP, "t", 0),)
    assert (world.fetch("t"), world.fetch("u")) == ((-1, NONE), (6, NONE))


# Retention


def test_offsets_stored_without_members_expire_after_their_commit() -> None:
    world = GroupWorld()
    world.commit(5)
    world.pass_time(DAY_MS)
    world.commit(6, topic="u")
    world.pass_time(RETENTION_MS - DAY_MS - 1)
    assert (world.fetch("t"), world.fetch("u")) == ((5, NONE), (6, NONE))
    world.pass_time(CHECK_MS + 1)
    assert (world.fetch("t"), world.fetch("u")) == ((-1, NONE), (6, NONE))
    world.pass_time(DAY_MS)
    assert list(world.groups.listed()) == []


def test_offsets_of_a_group_expire_after_its_last_member_left() -> None:
    world = GroupWorld()
    (member,), generation = world.stable(session_timeout_ms=1_800_000)
    world.commit(5, member, generation)
    for _ in range(2 * RETENTION_MS // DAY_MS):
        for _ in range(DAY_MS // 1_200_000):
            world.pass_time(1_200_000)
            world.heartbeat(member, generation)
    world.leave((member, None))
    world.pass_time(RETENTION_MS - 1)
    assert world.fetch() == (5, NONE)
    world.pass_time(CHECK_MS + 1)
    assert world.fetch() == (-1, NONE)
    assert world.records[-2:] == [OffsetForgotten(GROUP, "t", 0), GroupForgotten(GROUP)]
    world.restart()
    assert list(world.groups.listed()) == []


def test_a_restart_does_not_prolong_retention() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.commit(5, member, generation)
    world.leave((member, None))
    world.pass_time(RETENTION_MS - DAY_MS)
    world.restart_from_snapshot()
    world.pass_time(DAY_MS + CHECK_MS)
    assert world.fetch() == (-1, NONE)


def test_a_checkpoint_that_knows_no_times_but_those_in_its_records_is_judged_by_them() -> None:
    world = GroupWorld()
    offset = OffsetCommitted(GROUP, "t", 0, 5, -1, "", commit_timestamp_ms=START_MS)
    left = GenerationRecorded(GROUP, "consumer", 1, None, None, START_MS + DAY_MS, ())
    world.groups.restore(GroupsSnapshot((left,), (OffsetInSnapshot(offset, order=1),), order=1))
    world.groups.start_sessions(world.at)
    world.pass_time(RETENTION_MS + DAY_MS - 1)
    assert world.fetch() == (5, NONE)
    world.pass_time(CHECK_MS + 1)
    assert world.fetch() == (-1, NONE)


def test_an_offset_set_by_hand_for_a_long_empty_group_lives_its_full_time() -> None:
    world = GroupWorld()
    (member,), generation = world.stable()
    world.commit(5, member, generation)
    world.leave((member, None))
    world.pass_time(RETENTION_MS - DAY_MS)
    world.commit(9)
    world.pass_time(2 * DAY_MS)
    assert world.fetch() == (9, NONE)


def test_a_living_group_keeps_the_offsets_of_the_topics_it_reads() -> None:
    world = GroupWorld(GroupSettings(offsets_retention_ms=5_000, retention_check_interval_ms=1_000))
    protocols = (Protocol("range", subscription("t")),)
    (member,), generation = world.stable(protocols=protocols)
    world.commit(5, member, generation, "t")
    world.commit(6, member, generation, "left-behind")
    world.pass_time(6_000)
    assert (world.fetch("t"), world.fetch("left-behind")) == ((5, NONE), (-1, NONE))


def test_nothing_expires_while_a_group_rebalances() -> None:
    world = GroupWorld(GroupSettings(offsets_retention_ms=5_000, retention_check_interval_ms=1_000))
    (member,), generation = world.stable(session_timeout_ms=60_000)
    world.commit(6, member, generation, "left-behind")
    world.enter()
    world.pass_time(7_000)
    assert (world.state(), world.fetch("left-behind")) == ("PreparingRebalance", (6, NONE))


def test_a_session_that_ends_just_before_the_check_does_not_age_its_offsets() -> None:
    world = GroupWorld(
        GroupSettings(offsets_retention_ms=SESSION_MS, retention_check_interval_ms=1)
    )
    (member,), generation = world.stable()
    world.commit(5, member, generation)
    world.pass_time(SESSION_MS)
    assert (world.state(), world.fetch()) == ("Empty", (5, NONE))
    world.pass_time(SESSION_MS)
    assert world.fetch() == (-1, NONE)


def test_a_group_that_someone_is_about_to_join_is_not_forgotten() -> None:
    world = GroupWorld(GroupSettings(retention_check_interval_ms=1_000))
    (member,), generation = world.stable()
    world.leave((member, None))
    new = world.joined(world.join()).member_id
    world.pass_time(2_000)
    ticket = world.join(new)
    world.pass_time(3_000)
    assert world.joined(ticket).generation == generation + 2


def test_an_empty_group_without_offsets_is_forgotten_at_the_next_check() -> None:
    world = GroupWorld()
    (member,), _ = world.stable()
    world.leave((member, None))
    world.pass_time(CHECK_MS)
    assert world.records[-1] == GroupForgotten(GROUP)
    assert world.state() == "Dead"


def test_a_commit_may_bring_its_own_retention() -> None:
    world = GroupWorld()
    world.commit(5, retention_ms=1_000)
    world.commit(6, topic="u", retention_ms=2 * RETENTION_MS)
    world.restart()
    world.pass_time(CHECK_MS)
    assert (world.fetch("t"), world.fetch("u")) == ((-1, NONE), (6, NONE))
    world.pass_time(RETENTION_MS + CHECK_MS)
    assert world.fetch("u") == (6, NONE)


def test_a_commit_may_ask_to_be_kept_for_ever() -> None:
    world = GroupWorld()
    assert world.commit(5, retention_ms=2**63 - 1) == NONE
    world.restart()
    world.pass_time(2 * RETENTION_MS)
    assert world.fetch() == (5, NONE)


def test_a_great_many_expired_offsets_are_forgotten_in_bounded_steps() -> None:
    world = GroupWorld()
    topics = [f"{'long' * 40}-{n}" for n in range(5_000)]
    for start in range(0, len(topics), 1_000):
        offsets = tuple(OffsetToCommit(topic, 0, 1) for topic in topics[start : start + 1_000])
        world.commit(0, offsets=offsets)
    world.now_ms += 2 * RETENTION_MS
    steps = []
    while list(world.groups.listed()):
        steps.append(world.expire())
    assert len(steps) > 2
    assert all(step.records for step in steps)
