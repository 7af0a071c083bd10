"""Consumer groups seen from outside: who is in them, what they have committed, and moving that."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from semel.client.cluster.calls import raise_for, refusal
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import group_offsets
from semel.client.consuming.subscription import decode_assignment
from semel.errors import (
    NONE,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    RequestError,
    UnknownMemberId,
)
from semel.types import TopicPartition
from semel.wire.messages import (
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_delete,
)

DEAD = "Dead"
_CONSUMER_PROTOCOL = "consumer"
_REASONS = {GroupIdNotFound.code: "it does not exist", NonEmptyGroup.code: "it has members"}


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str


class MemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: frozenset[TopicPartition]


class GroupDescription(NamedTuple):
    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    members: tuple[MemberDescription, ...]


async def list_all(cluster: Cluster) -> list[GroupListing]:
    """The groups of every broker, since each knows only those it coordinates."""

    async def attempt() -> list[GroupListing]:
        listings: set[GroupListing] = set()
        for broker_id in (await cluster.describe(())).brokers:
            reply = await cluster.call(broker_id, list_groups, list_groups.ListGroupsRequest([]))
            raise_for(reply.error_code, f"groups of broker {broker_id}")
            listings.update(
                GroupListing(group.group_id, group.protocol_type, group.group_state)
                for group in reply.groups
            )
        return sorted(listings)

    return await cluster.retry(attempt)


async def describe(cluster: Cluster, group_id: str) -> GroupDescription:
    async def attempt() -> GroupDescription:
        reply = await cluster.call_coordinator(
            group_id, describe_groups, describe_groups.DescribeGroupsRequest([group_id])
        )
        (group,) = reply.groups
        # Since version 6 a group that does not exist is refused; it has always been called dead.
        if group.error_code != GroupIdNotFound.code:
            raise_for(group.error_code, f"group {group_id}", group.error_message)
        return GroupDescription(
            group_id=group.group_id,
            state=group.group_state if group.error_code == NONE else DEAD,
            protocol_type=group.protocol_type,
            assignor=group.protocol_data,
            coordinator_id=await cluster.coordinator_of(group_id),
            members=tuple(_member(member, group.protocol_type) for member in group.members),
        )

    return await cluster.retry(attempt)


def _member(member: describe_groups.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    # Other protocols, such as that of Connect, keep something else in the assignment.
    is_consumer = protocol_type == _CONSUMER_PROTOCOL
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        decode_assignment(member.member_assignment) if is_consumer else frozenset(),
    )


async def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    """Every offset that the group has committed."""
    found = await group_offsets(cluster, group_id, is_stable=False)
    return {partition: at.offset for partition, at in found.items()}


async def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Set offsets of a group that has no members at the moment."""
    topics: dict[str, list[offset_commit.OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, number), offset in offsets.items():
        topics[topic].append(
            offset_commit.OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=""
            )
        )
    request = offset_commit.OffsetCommitRequest(
        group_id=group_id,
        topics=[
            offset_commit.OffsetCommitRequestTopic(name, partitions)
            for name, partitions in topics.items()
        ],
    )

    async def attempt() -> None:
        reply = await cluster.call_coordinator(group_id, offset_commit, request)
        for topic in reply.topics:
            for answer in topic.partitions:
                if answer.error_code == UnknownMemberId.code:
                    raise UnknownMemberId(
                        f"group {group_id} has members; its offsets can be set once they are gone"
                    )
                partition = TopicPartition(topic.name, answer.partition_index)
                raise_for(answer.error_code, f"offset of group {group_id} in {partition}")

    await cluster.retry(attempt)


async def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition]
) -> None:
    """Let the group forget what it has committed there; refused where it is subscribed."""
    topics: dict[str, list[offset_delete.OffsetDeleteRequestPartition]] = defaultdict(list)
    for topic, number in partitions:
        topics[topic].append(offset_delete.OffsetDeleteRequestPartition(number))
    request = offset_delete.OffsetDeleteRequest(
        group_id, [offset_delete.OffsetDeleteRequestTopic(*each) for each in topics.items()]
    )

    async def attempt() -> None:
        reply = await cluster.call_coordinator(group_id, offset_delete, request)
        raise_for(reply.error_code, f"group {group_id}", _REASONS.get(reply.error_code))
        for topic in reply.topics:
            for answer in topic.partitions:
                if answer.error_code == GroupSubscribedToTopic.code:
                    raise GroupSubscribedToTopic(
                        f"group {group_id} reads topic {topic.name}; its offsets there can be"
                        " deleted once its members are gone"
                    )
                partition = TopicPartition(topic.name, answer.partition_index)
                raise_for(answer.error_code, f"offset of group {group_id} in {partition}")

    await cluster.retry(attempt)


async def delete(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, RequestError | None]:
    """One outcome per group, None for success."""
    outcomes: dict[str, RequestError | None] = {}
    for group_id in group_ids:
        outcomes[group_id] = await _delete_one(cluster, group_id)
    return outcomes


async def _delete_one(cluster: Cluster, group_id: str) -> RequestError | None:
    async def attempt() -> RequestError | None:
        reply = await cluster.call_coordinator(
            group_id, delete_groups, delete_groups.DeleteGroupsRequest([group_id])
        )
        (result,) = reply.results
        if result.error_code == NONE:
            return None
        error = refusal(result.error_code, f"group {group_id}", _REASONS.get(result.error_code))
        if error.retriable:
            raise error
        return error

    return await cluster.retry(attempt)


def owners(members: Collection[MemberDescription]) -> dict[TopicPartition, MemberDescription]:
    return {partition: member for member in members for partition in member.partitions}
