"""What admin tools ask for besides topics and groups, and newer versions of what they ask."""

from typing import Any

import pytest

from semel.testing import Broker
from semel.types import INTERNAL_TOPICS
from semel.wire.messages.create_acls import AclCreation, CreateAclsRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_acls import DescribeAclsRequest
from semel.wire.messages.describe_cluster import DescribeClusterRequest
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionRequest
from semel.wire.messages.describe_quorum import TopicRequest as QuorumTopic
from semel.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_config_resources import ListConfigResourcesRequest
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from support.raw_client import RawClient, produce_values
from support.topics import name_for

SECURITY_DISABLED = 54
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
INVALID_TOPIC = 17
UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_TOPIC_ID = 100
ILLEGAL_GENERATION = 22
GROUP_ID_NOT_FOUND = 69
MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE = 114, 115
NOBODY = b"\7" * 16


@pytest.fixture
def client(semel_broker: Broker) -> Any:
    with RawClient(semel_broker) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return name_for(request)[:80]


def create(client: RawClient, name: str, partition_count: int = 1) -> bytes:
    request = CreateTopicsRequest([CreatableTopic(name, partition_count, 1)])
    (made,) = client.call("create_topics", 7, request).topics
    assert made.error_code == 0
    return bytes(made.topic_id)


# Access lists, quotas, reassignments


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_is_no_security_to_speak_of(client: RawClient, version: int) -> None:
    described = client.call("describe_acls", version, DescribeAclsRequest(1, pattern_type_filter=1))
    assert (described.error_code, described.resources) == (SECURITY_DISABLED, [])
    assert "no access lists" in described.error_message
    creation = AclCreation(2, "t", 3, "User:a", "*", 2, 3)
    created = client.call("create_acls", version, CreateAclsRequest([creation, creation]))
    assert [each.error_code for each in created.results] == [SECURITY_DISABLED] * 2
    deleted = client.call("delete_acls", version, DeleteAclsRequest([DeleteAclsFilter(1)]))
    assert [each.error_code for each in deleted.filter_results] == [SECURITY_DISABLED]


def test_no_partition_is_on_its_way(client: RawClient) -> None:
    request = ListPartitionReassignmentsRequest()
    answer = client.call("list_partition_reassignments", 0, request)
    assert (answer.error_code, answer.topics) == (0, [])


# What one may do


def operations(*codes: int) -> int:
    """As Kafka's clients read them: a bit for each operation of access lists."""
    return sum(1 << code for code in codes)


READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(3, 9)
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(9, 13)
CONFIGS = (DESCRIBE_CONFIGS, ALTER_CONFIGS)
ON_TOPIC = operations(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, *CONFIGS)
ON_GROUP = operations(READ, DELETE, DESCRIBE, *CONFIGS)
ON_CLUSTER = operations(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, *CONFIGS, IDEMPOTENT_WRITE)
NOT_ASKED_FOR = -(2**31)


@pytest.mark.parametrize("asked", [False, True])
def test_without_an_authorizer_everything_is_allowed(
    client: RawClient, name: str, asked: bool
) -> None:
    create(client, name)
    assert commit(client, name, OffsetCommitRequestTopic(name, at(1)), 8) == 0
    cluster = client.call("describe_cluster", 2, DescribeClusterRequest(asked))
    assert cluster.cluster_authorized_operations == (ON_CLUSTER if asked else NOT_ASKED_FOR)
    (group,) = client.call("describe_groups", 6, DescribeGroupsRequest([name], asked)).groups
    assert group.authorized_operations == (ON_GROUP if asked else NOT_ASKED_FOR)
    for version in (8, 10, 13):
        request = MetadataRequest(
            [MetadataRequestTopic(name=each) for each in (name, f"{name}-missing")],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=asked and version <= 10,
            include_topic_authorized_operations=asked,
        )
        answer = client.call("metadata", version, request)
        allowed = [topic.topic_authorized_operations for topic in answer.topics]
        assert allowed == [ON_TOPIC if asked else NOT_ASKED_FOR, NOT_ASKED_FOR]
        if version <= 10:
            assert answer.cluster_authorized_operations == (ON_CLUSTER if asked else NOT_ASKED_FOR)


def test_of_partitions_it_is_told_unasked_what_is_allowed(client: RawClient, name: str) -> None:
    create(client, name)
    (topic,) = described(client, topics=[TopicRequest(name)]).topics
    assert topic.topic_authorized_operations == ON_TOPIC


# What has settings


def test_topics_and_the_broker_have_settings(client: RawClient, name: str) -> None:
    create(client, name)

    def listed(version: int, *kinds: int) -> set[tuple[int, str]]:
        request = ListConfigResourcesRequest(list(kinds))
        answer = client.call("list_config_resources", version, request)
        assert answer.error_code == 0
        return {(each.resource_type, each.resource_name) for each in answer.config_resources}

    assert {(2, name), (4, "1")} <= listed(1)
    assert listed(1, 4) == {(4, "1")}
    assert (2, name) in listed(1, 2)
    assert listed(1, 16) == listed(1, 32) == listed(0) == set()
    refused = client.call("list_config_resources", 1, ListConfigResourcesRequest([99]))
    assert refused.error_code == UNSUPPORTED_VERSION


# Topics and their partitions


def described(client: RawClient, **fields: Any) -> Any:
    request = DescribeTopicPartitionsRequest(**fields)
    return client.call("describe_topic_partitions", 0, request)


def test_a_topic_is_described_by_its_partitions(client: RawClient, name: str) -> None:
    topic_id = create(client, name, 2)
    missing = f"{name}-missing"
    answer = described(
        client, topics=[TopicRequest(missing), TopicRequest(name), TopicRequest("!")]
    )
    assert answer.next_cursor is None
    illegal, found, unknown = answer.topics
    assert (illegal.error_code, illegal.name) == (INVALID_TOPIC, "!")
    assert (unknown.error_code, unknown.name) == (UNKNOWN_TOPIC_OR_PARTITION, missing)
    assert (found.error_code, found.name, found.topic_id) == (0, name, topic_id)
    assert [each.partition_index for each in found.partitions] == [0, 1]
    for each in found.partitions:
        assert (each.error_code, each.leader_id, each.leader_epoch) == (0, 1, 0)
        assert (each.replica_nodes, each.isr_nodes, each.offline_replicas) == ([1], [1], [])
        assert (each.eligible_leader_replicas, each.last_known_elr) == ([], [])
    assert missing not in {topic.name for topic in described(client).topics}


@pytest.mark.parametrize("asked_name", [None, ""])
def test_an_id_counts_more_than_a_name(
    client: RawClient, name: str, asked_name: str | None
) -> None:
    topic_id = create(client, name)
    wanted = [MetadataRequestTopic(each, asked_name) for each in (topic_id, NOBODY)]
    found, missing = client.call("metadata", 12, MetadataRequest(wanted)).topics
    assert (found.error_code, found.name, found.topic_id) == (0, name, topic_id)
    assert (missing.error_code, missing.topic_id) == (UNKNOWN_TOPIC_ID, NOBODY)


@pytest.mark.parametrize("limit", [-5, 1, 2, 3, 4, 7])
def test_a_cursor_tells_where_to_go_on(client: RawClient, name: str, limit: int) -> None:
    names = [f"{name}-{limit}-{letter}" for letter in "abc"]
    for each in names:
        create(client, each, 3)
    asked = [TopicRequest(each) for each in names]
    found: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    while True:
        answer = described(client, topics=asked, response_partition_limit=limit, cursor=cursor)
        page = [
            (topic.name, each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
        ]
        assert 0 < len(page) <= max(1, limit)
        found += page
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert found == [(each, index) for each in names for index in range(3)]


def test_all_topics_are_paged_through_as_well(client: RawClient, name: str) -> None:
    create(client, name, 3)
    found: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    while True:
        answer = described(client, response_partition_limit=2, cursor=cursor)
        found += [
            (topic.name, each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
            if topic.name not in INTERNAL_TOPICS
        ]
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert found == sorted(set(found))
    assert {(name, 0), (name, 1), (name, 2)} <= set(found)


@pytest.mark.parametrize("cursor", [Cursor("another", 0), Cursor("one", -1)])
def test_a_cursor_that_leads_nowhere_is_refused(client: RawClient, cursor: Cursor) -> None:
    answer = described(client, topics=[TopicRequest("one")], cursor=cursor)
    assert [topic.error_code for topic in answer.topics] == [INVALID_REQUEST]


# Groups


def commit(client: RawClient, group: str, topic: OffsetCommitRequestTopic, version: int) -> int:
    request = OffsetCommitRequest(group, topics=[topic])
    (answer,) = client.call("offset_commit", version, request).topics
    assert answer.topic_id == topic.topic_id
    return int(answer.partitions[0].error_code)


def at(offset: int) -> list[OffsetCommitRequestPartition]:
    return [OffsetCommitRequestPartition(0, offset, -1, "m")]


def test_groups_have_types(client: RawClient, name: str) -> None:
    create(client, name)
    assert commit(client, name, OffsetCommitRequestTopic(name, at(1)), 8) == 0

    def listed(*types: str) -> dict[str, str]:
        answer = client.call("list_groups", 5, ListGroupsRequest(types_filter=list(types)))
        assert answer.error_code == 0
        return {group.group_id: group.group_type for group in answer.groups}

    assert listed()[name] == "classic"
    assert name in listed("Classic")
    assert name in listed("consumer", "classic")
    assert listed("consumer") == listed("share", "whatever") == {}


def test_groups_are_asked_for_by_state_whatever_the_case(client: RawClient, name: str) -> None:
    create(client, name)
    assert commit(client, name, OffsetCommitRequestTopic(name, at(1)), 8) == 0

    def listed(*states: str) -> set[str]:
        request = ListGroupsRequest(states_filter=list(states))
        return {group.group_id for group in client.call("list_groups", 4, request).groups}

    assert name in listed("eMPTY", "Stable")
    assert name not in listed("Stable", "Dead")


def test_a_group_that_does_not_exist_is_refused_where_a_version_can_say_so(
    client: RawClient, name: str
) -> None:
    request = DescribeGroupsRequest([name])
    (old,) = client.call("describe_groups", 5, request).groups
    assert (old.error_code, old.group_state) == (0, "Dead")
    (new,) = client.call("describe_groups", 6, request).groups
    assert (new.error_code, new.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
    assert name in new.error_message


@pytest.mark.parametrize(
    ("version", "code"),
    [(8, ILLEGAL_GENERATION), (9, GROUP_ID_NOT_FOUND), (10, GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_no_group_cannot_commit(
    client: RawClient, name: str, version: int, code: int
) -> None:
    topic_id = create(client, name)
    topic = OffsetCommitRequestTopic(name if version < 10 else "", at(1))
    if version >= 10:
        topic.topic_id = topic_id
    request = OffsetCommitRequest("nobody", 3, "member", topics=[topic])
    (answer,) = client.call("offset_commit", version, request).topics
    assert [each.error_code for each in answer.partitions] == [code]


def test_offsets_are_committed_and_fetched_by_ids(client: RawClient, name: str) -> None:
    topic_id = create(client, name)
    assert commit(client, name, OffsetCommitRequestTopic("", at(7), topic_id), 10) == 0
    stranger = OffsetCommitRequestTopic("", at(7), NOBODY)
    assert commit(client, name, stranger, 10) == UNKNOWN_TOPIC_ID

    def fetched(topics: list[OffsetFetchRequestTopics] | None) -> dict[bytes, tuple[int, int]]:
        group = OffsetFetchRequestGroup(name, topics=topics)
        (answer,) = client.call("offset_fetch", 10, OffsetFetchRequest([group])).groups
        assert (answer.group_id, answer.error_code) == (name, 0)
        return {
            topic.topic_id: (each.committed_offset, each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }

    wanted = [OffsetFetchRequestTopics("", [0], each) for each in (topic_id, NOBODY)]
    assert fetched(wanted) == {topic_id: (7, 0), NOBODY: (-1, UNKNOWN_TOPIC_ID)}
    assert fetched(None) == {topic_id: (7, 0)}
    deletion = DeleteTopicsRequest([DeleteTopicState(name)])
    assert client.call("delete_topics", 6, deletion).responses[0].error_code == 0
    new_id = create(client, name)
    assert (
        commit(client, name, OffsetCommitRequestTopic("", at(9), topic_id), 10) == UNKNOWN_TOPIC_ID
    )
    assert fetched(None) == {}
    wanted = [OffsetFetchRequestTopics("", [0], each) for each in (topic_id, new_id)]
    assert fetched(wanted) == {topic_id: (-1, UNKNOWN_TOPIC_ID), new_id: (-1, 0)}


def test_which_member_asks_does_not_matter_to_a_classic_group(client: RawClient, name: str) -> None:
    create(client, name)
    assert commit(client, name, OffsetCommitRequestTopic(name, at(3)), 9) == 0
    topics = [OffsetFetchRequestTopics(name, [0])]
    group = OffsetFetchRequestGroup(name, "whoever", 5, topics)
    (answer,) = client.call("offset_fetch", 9, OffsetFetchRequest([group])).groups
    assert [each.committed_offset for each in answer.topics[0].partitions] == [3]


def test_only_of_partitions_that_there_are_offsets_can_be_deleted(
    client: RawClient, name: str
) -> None:
    create(client, name)
    assert commit(client, name, OffsetCommitRequestTopic(name, at(3)), 9) == 0

    def deleted(group: str, topic: str, *indexes: int) -> tuple[int, list[int]]:
        wanted = [OffsetDeleteRequestPartition(index) for index in indexes]
        request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, wanted)])
        answer = client.call("offset_delete", 0, request)
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
        return answer.error_code, codes

    assert deleted(name, f"{name}-missing", 0) == (0, [UNKNOWN_TOPIC_OR_PARTITION])
    assert deleted(name, name, 0, 1) == (0, [0, UNKNOWN_TOPIC_OR_PARTITION])
    assert deleted(f"{name}-nobody", name, 0) == (GROUP_ID_NOT_FOUND, [])


# Offsets by timestamps that are none


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(-1, 1, 3), (-2, 1, 1), (-3, 7, 1), (-4, 8, 1), (-5, 9, -1), (-6, 11, -1)],
)
def test_a_timestamp_that_is_none_has_a_meaning_since_a_version(
    client: RawClient, name: str, timestamp: int, since: int, offset: int
) -> None:
    create(client, name)
    produce_values(client, name, [b"0", b"1", b"2"])
    client.delete_records(name, 1)
    topic = ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=timestamp)])
    for version in range(1, 12):
        request = ListOffsetsRequest(topics=[topic])
        (answer,) = client.call("list_offsets", version, request).topics[0].partitions
        if version < since:
            assert answer.error_code == UNSUPPORTED_VERSION
        else:
            assert (answer.error_code, answer.offset) == (0, offset)


@pytest.mark.parametrize("version", [1, 11])
def test_other_negative_timestamps_mean_nothing(client: RawClient, name: str, version: int) -> None:
    create(client, name)
    topic = ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-7)])
    (answer,) = client.call("list_offsets", version, ListOffsetsRequest(topics=[topic])).topics
    assert [each.error_code for each in answer.partitions] == [UNSUPPORTED_VERSION]


# The rest


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(1, 0), (2, MISMATCHED_ENDPOINT_TYPE), (0, UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_tells_of_brokers(client: RawClient, endpoint_type: int, code: int) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type, include_fenced_brokers=True)
    answer = client.call("describe_cluster", 2, request)
    assert answer.error_code == code
    assert [each.is_fenced for each in answer.brokers] == ([False] if code == 0 else [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_broker_is_the_only_voter_about_topics(
    client: RawClient, name: str, version: int
) -> None:
    def quorum(topic: str, index: int) -> Any:
        request = DescribeQuorumRequest([QuorumTopic(topic, [PartitionRequest(index)])])
        answer = client.call("describe_quorum", version, request)
        assert answer.error_code == 0
        if version == 2:
            assert [each.node_id for each in answer.nodes] == [1]
        return answer.topics[0].partitions[0]

    before = quorum("__cluster_metadata", 0)
    assert (before.error_code, before.leader_id, before.observers) == (0, 1, [])
    (voter,) = before.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, before.high_watermark)
    create(client, name)
    after = quorum("__cluster_metadata", 0)
    assert after.leader_epoch == before.leader_epoch
    assert after.high_watermark > before.high_watermark
    for other in (("__cluster_metadata", 1), (name, 0)):
        assert quorum(*other).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_share_groups_have_no_coordinator(client: RawClient) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:id:0"])
    (answer,) = client.call("find_coordinator", 6, request).coordinators
    assert answer.error_code == INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"enable2_pc": True}, TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True}, UNSUPPORTED_VERSION),
    ],
)
def test_there_is_no_two_phase_commit(
    client: RawClient, name: str, fields: dict[str, bool], code: int
) -> None:
    request = InitProducerIdRequest(name, 60_000, **fields)
    answer = client.call("init_producer_id", 6, request)
    assert answer.error_code == code
    assert answer.ongoing_txn_producer_id == -1


def test_the_disk_takes_new_partitions(client: RawClient) -> None:
    (answer,) = client.call("describe_log_dirs", 5, DescribeLogDirsRequest(None)).results
    assert not answer.is_cordoned
