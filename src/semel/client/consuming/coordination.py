"""What a member asks of its group's coordinator.

A connection answers in order, and a join may wait for minutes: what must not wait behind it
goes over connections of its own.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import group_offsets
from semel.client.cluster.metadata import TopicGone, TopicRemade
from semel.client.connecting.connection import Messages
from semel.client.consuming.actions import Join, MemberIdentity, Sync
from semel.client.consuming.completed_fetch import NO_EPOCH
from semel.client.consuming.partition import Position
from semel.client.consuming.settings import ConsumerSettings
from semel.errors import (
    MemberIdRequired,
    RequestError,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from semel.types import TopicPartition
from semel.wire.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    sync_group,
)

_PROTOCOL_TYPE = "consumer"
_STATIC_JOIN_VERSION_MIN = 5
_JOIN_SLACK_MS = 5_000
_LEAVE_MS_MAX = 5_000

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")


class GroupCoordination:
    def __init__(
        self, waiting: Cluster, asking: Cluster, group: str, settings: ConsumerSettings
    ) -> None:
        self._waiting = waiting
        self._asking = asking
        self._group = group
        self._settings = settings
        self._subject = f"group {group}"

    async def join(self, action: Join) -> join_group.JoinGroupResponse:
        """The reply, also of a member that is to join again under the id in it."""
        settings = self._settings
        request = join_group.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=action.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[
                join_group.JoinGroupRequestProtocol(name, metadata)
                for name, metadata in action.protocols
            ],
        )
        if settings.group_instance_id is not None:
            node_id = await self._waiting.coordinator_of(self._group)
            if await self._waiting.version_of(node_id, join_group) < _STATIC_JOIN_VERSION_MIN:
                raise UnsupportedVersion("the brokers are too old for static members")
        timeout_ms = settings.max_poll_interval_ms + _JOIN_SLACK_MS
        reply = await self._ask(join_group, request, timeout_ms)
        if reply.error_code != MemberIdRequired.code:
            self._raise_for(reply.error_code)
        return reply

    async def sync(self, action: Sync) -> bytes:
        request = sync_group.SyncGroupRequest(
            group_id=self._group,
            generation_id=action.generation_id,
            member_id=action.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=action.protocol_name,
            assignments=[
                sync_group.SyncGroupRequestAssignment(member_id, assignment)
                for member_id, assignment in action.assignments.items()
            ],
        )
        timeout_ms = self._settings.max_poll_interval_ms + _JOIN_SLACK_MS
        reply = await self._ask(sync_group, request, timeout_ms)
        self._raise_for(reply.error_code)
        return bytes(reply.assignment)

    async def beat(self, identity: MemberIdentity) -> None:
        request = heartbeat.HeartbeatRequest(
            self._group, *identity, self._settings.group_instance_id
        )
        timeout_ms = min(self._settings.request_timeout_ms, self._settings.session_timeout_ms)
        reply = await self._ask(heartbeat, request, timeout_ms)
        self._raise_for(reply.error_code)

    async def _ask(
        self, messages: Messages[_Request, _Reply], request: _Request, timeout_ms: int
    ) -> _Reply:
        try:
            node_id = await self._waiting.coordinator_of(self._group)
            pending = await self._waiting.ask(node_id, messages, request)
            return await pending.reply(timeout_ms)
        except RequestError:
            self._waiting.forget_coordinator(self._group)
            raise

    def _raise_for(self, code: int) -> None:
        try:
            raise_for(code, self._subject)
        except RequestError as error:
            if error.retriable:
                self._waiting.forget_coordinator(self._group)
            raise

    async def leave(self, member_id: str) -> None:
        request = leave_group.LeaveGroupRequest(
            group_id=self._group,
            members=[leave_group.MemberIdentity(member_id)],
            member_id=member_id,
        )

        async def attempt() -> None:
            reply = await self._asking.call_coordinator(self._group, leave_group, request)
            raise_for(reply.error_code, self._subject)

        await self._within(_LEAVE_MS_MAX, attempt)

    async def commit(
        self, offsets: Mapping[TopicPartition, Position], identity: MemberIdentity, timeout_ms: int
    ) -> None:
        topics: dict[tuple[str, bytes], list[offset_commit.OffsetCommitRequestPartition]] = (
            defaultdict(list)
        )
        for (topic, number), (offset, epoch, topic_id) in offsets.items():
            topics[topic, topic_id].append(
                offset_commit.OffsetCommitRequestPartition(number, offset, epoch, "")
            )
        request = offset_commit.OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=None if identity.generation_id < 0 else self._instance_id,
            topics=[
                offset_commit.OffsetCommitRequestTopic(name, partitions, topic_id)
                for (name, topic_id), partitions in topics.items()
            ],
        )

        async def attempt() -> None:
            reply = await self._asking.call_coordinator(self._group, offset_commit, request)
            for topic in reply.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if each.error_code == UnknownTopicId.code:
                        raise TopicRemade(topic.name)
                    subject = f"offset of {partition} for {self._subject}"
                    if each.error_code == UnknownTopicOrPartition.code:
                        raise TopicGone(f"{subject}: the topic does not exist")
                    raise_for(each.error_code, subject)

        await self._within(timeout_ms, attempt)

    async def _within(self, timeout_ms: int, attempt: Callable[[], Awaitable[None]]) -> None:
        """Attempt for so long and no longer, wherever the time is spent."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._asking.retry(attempt, timeout_ms)
        except TimeoutError:
            raise RequestTimedOut(f"{self._subject} is not answered for in time") from None

    @property
    def _instance_id(self) -> str | None:
        return self._settings.group_instance_id

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Position]:
        """Those that have one; waits for transactions that may change them (KIP-447)."""
        found = await group_offsets(self._asking, self._group, partitions) if partitions else {}
        return {
            partition: Position(at.offset, max(at.leader_epoch, NO_EPOCH))
            for partition, at in found.items()
        }
