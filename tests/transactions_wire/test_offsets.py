"""Offsets that commit with the data: items 25, 26 and 38, and fencing by generation (KIP-447)."""

import pytest

from semel.testing import Broker
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.kafka_codes import (
    ILLEGAL_GENERATION,
    INVALID_TXN_STATE,
    NON_EMPTY_GROUP,
    NONE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
)
from support.raw_client import RawClient
from support.transactional_wire import TV1, TV2, Versions, WireProducer, committed_offset

NO_OFFSET = -1


def _commit_offset(producer: WireProducer, group: str, topic: str, offset: int) -> None:
    if producer.versions is TV1:
        assert producer.add_offsets(group) == NONE
    assert producer.commit_offsets(group, {(topic, 0): offset}) == [NONE]


def _commit_plainly(client: RawClient, group: str, topic: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, [partition])])
    return int(client.call("offset_commit", 8, request).topics[0].partitions[0].error_code)


def _join(client: RawClient, group: str) -> tuple[str, int]:
    """The only member of a new generation."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer", protocols)
    first = client.call("join_group", 7, request)
    request.member_id = first.member_id
    joined = client.call("join_group", 7, request)
    assignment = SyncGroupRequestAssignment(joined.member_id, b"")
    synced = client.call(
        "sync_group",
        5,
        SyncGroupRequest(
            group, joined.generation_id, joined.member_id, None, "consumer", "range", [assignment]
        ),
    )
    assert synced.error_code == NONE
    return joined.member_id, joined.generation_id


def test_offsets_are_pending_until_the_commit_and_gone_with_an_abort(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        for number, commit in enumerate((True, False, True)):
            before = committed_offset(client, name, topic)
            _commit_offset(producer, name, topic, 10 + number)
            assert committed_offset(client, name, topic) == before
            assert committed_offset(client, name, topic, require_stable=True) == (
                NO_OFFSET,
                UNSTABLE_OFFSET_COMMIT,
            )
            assert producer.end(commit=commit) == NONE
            after = (10 + number, NONE) if commit else before
            assert committed_offset(client, name, topic) == after
            assert committed_offset(client, name, topic, require_stable=True) == after


def test_offsets_of_a_fenced_producer_are_gone_when_its_successor_starts(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as old, WireProducer(broker, name) as new:
        old.init()
        _commit_offset(old, name, topic, 5)
        new.init()
        assert committed_offset(client, name, topic, require_stable=True) == (NO_OFFSET, NONE)


def test_25_of_mixed_commits_the_later_in_the_log_wins_and_not_the_later_marker(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        _commit_offset(producer, name, topic, 5)
        assert _commit_plainly(client, name, topic, 9) == NONE
        assert producer.commit() == NONE
        assert committed_offset(client, name, topic) == (9, NONE)
        _commit_offset(producer, name, topic, 12)
        assert producer.commit() == NONE
        assert committed_offset(client, name, topic) == (12, NONE)


def test_25_a_group_with_pending_offsets_is_not_deleted(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        assert _commit_plainly(client, name, topic, 1) == NONE
        _commit_offset(producer, name, topic, 5)
        request = DeleteGroupsRequest([name])
        (refused,) = client.call("delete_groups", 2, request).results
        assert refused.error_code == NON_EMPTY_GROUP
        assert producer.commit() == NONE
        assert committed_offset(client, name, topic) == (5, NONE)
        (deleted,) = client.call("delete_groups", 2, request).results
        assert deleted.error_code == NONE


def test_26_without_generation_and_member_nothing_is_fenced_and_a_wrong_generation_is(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        offsets = {(topic, 0): 3}
        assert producer.commit_offsets(name, offsets) == [NONE]
        assert producer.commit_offsets(f"{name}-no-group", offsets, generation=0, member="m") == [
            ILLEGAL_GENERATION
        ]
        member, generation = _join(client, f"{name}-g")
        commit = (f"{name}-g", offsets)
        assert producer.commit_offsets(*commit, generation=generation - 1, member=member) == [
            ILLEGAL_GENERATION
        ]
        assert producer.commit_offsets(*commit, generation=generation, member="stranger") == [
            UNKNOWN_MEMBER_ID
        ]
        assert producer.commit_offsets(*commit, generation=generation, member=member) == [NONE]
        assert producer.commit() == NONE
        assert committed_offset(client, f"{name}-g", topic) == (3, NONE)


def test_a_refused_offset_commit_takes_no_part_in_the_transaction(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        refused = producer.commit_offsets(name, {(topic, 0): 3}, generation=7, member="zombie")
        assert refused == [ILLEGAL_GENERATION]
        assert producer.commit() == INVALID_TXN_STATE  # Nothing was begun.
        assert committed_offset(client, name, topic, require_stable=True) == (NO_OFFSET, NONE)


def test_tv1_offsets_of_a_group_that_was_not_added_are_refused(
    broker: Broker, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        producer.write(topic, b"v")
        assert producer.commit_offsets(name, {(topic, 0): 3}) == [INVALID_TXN_STATE]


@pytest.mark.parametrize("versions", [TV1, TV2], ids=["TV1", "TV2"])
def test_38_offsets_of_unknown_partitions_are_refused_one_by_one(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        if versions is TV1:
            producer.add_offsets(name)
        offsets = {("nowhere", 0): 1, (topic, 77): 2, (topic, 0): 3}
        assert producer.commit_offsets(name, offsets) == [
            UNKNOWN_TOPIC_OR_PARTITION,
            UNKNOWN_TOPIC_OR_PARTITION,
            NONE,
        ]
        assert producer.commit() == NONE
    assert committed_offset(client, name, topic) == (3, NONE)
