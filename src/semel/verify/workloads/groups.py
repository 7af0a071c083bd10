"""Members of a consumer group, and those who commit and read its offsets without being members."""

import asyncio
import json
from collections.abc import Sequence

from semel.errors import (
    FencedInstanceId,
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from semel.types import TopicPartition
from semel.verify.history import (
    Assigned,
    Beaten,
    Committed,
    CommitTried,
    Expelled,
    Joined,
    OffsetSeen,
)
from semel.verify.workloads.client import Client, Connection, Lost, Reply
from semel.verify.world.network import OfGroup
from semel.wire.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)

SESSION_TIMEOUT_MS = 900
REBALANCE_TIMEOUT_MS = 500
SILENCE_S_MAX = 0.4
"""Members pause now and then for so long, which is no reason to expel them."""
PATIENCE_S = 2.5
STATIC_SINCE = {"join": 5, "sync": 3, "heartbeat": 3, "commit": 7}
PROTOCOL = "shared"


class Rejoin(Exception):
    """This generation is over for the member."""


class Consumer:
    """It joins, takes its share of the partitions, commits, leaves and returns."""

    def __init__(
        self,
        client: Client,
        group: str,
        partitions: Sequence[TopicPartition],
        instance_id: str | None,
    ) -> None:
        self._client = client
        self._group = group
        self._partitions = partitions
        """What the group shares; the leader of a generation deals it out."""
        self._instance_id = instance_id
        self._member_id = ""
        self._generation = -1

    async def run(self) -> None:
        while True:
            connection = await self._client.connect(OfGroup(self._group))
            try:
                while True:
                    await self._take_part(connection)
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _take_part(self, connection: Connection) -> None:
        try:
            assigned = await self._join(connection)
            await self._work(connection, assigned)
        except Rejoin:
            await self._client.think()

    async def _join(self, connection: Connection) -> tuple[TopicPartition, ...]:
        request = join_group.JoinGroupRequest(
            self._group,
            SESSION_TIMEOUT_MS,
            REBALANCE_TIMEOUT_MS,
            self._member_id,
            self._instance_id,
            "simulated",
            [join_group.JoinGroupRequestProtocol(PROTOCOL, b"any")],
        )
        reply = await connection.ask(
            join_group, request, version_min=self._since("join"), patience_s=PATIENCE_S
        )
        joined: join_group.JoinGroupResponse = reply.message
        if joined.error_code == MemberIdRequired.code:
            self._member_id = joined.member_id
        self._check(joined.error_code)
        self._member_id = joined.member_id
        self._generation = joined.generation_id
        self._client.history.note(
            Joined(reply.span, self._group, joined.member_id, joined.generation_id)
        )
        others = [member.member_id for member in joined.members]
        return await self._sync(connection, others if joined.leader == joined.member_id else [])

    async def _sync(self, connection: Connection, led: list[str]) -> tuple[TopicPartition, ...]:
        shares: dict[str, list[TopicPartition]] = {member: [] for member in led}
        for place, partition in enumerate(self._partitions if led else ()):
            shares[led[place % len(led)]].append(partition)
        request = sync_group.SyncGroupRequest(
            self._group,
            self._generation,
            self._member_id,
            self._instance_id,
            assignments=[
                sync_group.SyncGroupRequestAssignment(member, json.dumps(share).encode())
                for member, share in shares.items()
            ],
            protocol_type="simulated",
            protocol_name=PROTOCOL,
        )
        reply = await connection.ask(
            sync_group, request, version_min=self._since("sync"), patience_s=PATIENCE_S
        )
        self._check(reply.message.error_code)
        dealt = json.loads(reply.message.assignment or b"[]")
        assigned = tuple(TopicPartition(topic, index) for topic, index in dealt)
        owner = self._instance_id or self._member_id
        self._client.history.note(
            Assigned(reply.span, self._group, owner, self._generation, assigned)
        )
        return assigned

    async def _work(self, connection: Connection, assigned: tuple[TopicPartition, ...]) -> None:
        positions = {}
        for partition in assigned:
            seen = await committed_offset(connection, self._group, partition)
            self._client.history.note(seen)
            positions[partition] = max(seen.offset, 0)
        while True:
            await self._client.think()
            if self._client.rng.random() < 0.1:
                await asyncio.sleep(self._client.rng.uniform(0.1, SILENCE_S_MAX))
            if self._client.rng.random() < 0.02:
                await self._leave(connection)
            if positions and self._client.rng.random() < 0.6:
                partition = self._client.rng.choice(sorted(positions))
                positions[partition] += self._client.rng.randint(1, 5)
                await self._commit(connection, partition, positions[partition])
            else:
                await self._beat(connection)

    async def _beat(self, connection: Connection) -> None:
        request = heartbeat.HeartbeatRequest(
            self._group, self._generation, self._member_id, self._instance_id
        )
        reply = await connection.ask(heartbeat, request, version_min=self._since("heartbeat"))
        code = reply.message.error_code
        if code == 0:
            # It was not to join again, so that whoever begins a rebalance gives it that time.
            kept_s = min(SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS) / 1000
            self._client.history.note(Beaten(reply.span, self._member_id, kept_s))
        self._check_place(code, reply)

    async def _commit(self, connection: Connection, partition: TopicPartition, offset: int) -> None:
        request = commit_request(
            self._group,
            partition,
            offset,
            generation=self._generation,
            member_id=self._member_id,
            instance_id=self._instance_id,
        )
        self._client.history.note(CommitTried(self._group, partition, offset))
        try:
            reply = await connection.ask(offset_commit, request, version_min=self._since("commit"))
        except Lost:
            # That commit may still arrive. A member that stays what it was could be overtaken
            # by its own past, so this one comes back as another.
            self._member_id = ""
            raise
        (outcome,) = reply.message.topics[0].partitions
        self._check_place(outcome.error_code, reply)
        self._client.history.note(Committed(reply.span, self._group, partition, offset))

    async def _leave(self, connection: Connection) -> None:
        request = leave_group.LeaveGroupRequest(
            self._group,
            [leave_group.MemberIdentity(self._member_id, self._instance_id)],
            self._member_id,
        )
        # It may arrive whenever, and must find nobody then who is a member again.
        self._member_id = ""
        await connection.ask(leave_group, request, version_min=3 if self._instance_id else 0)
        raise Rejoin

    def _since(self, what: str) -> int:
        return STATIC_SINCE[what] if self._instance_id else 0

    def _check_place(self, code: int, reply: Reply) -> None:
        if code == UnknownMemberId.code:
            self._client.history.note(Expelled(reply.span, self._member_id))
        self._check(code)

    def _check(self, code: int) -> None:
        if code == 0:
            return
        if code == FencedInstanceId.code:
            self._instance_id = None
        if code in (UnknownMemberId.code, FencedInstanceId.code):
            self._member_id = ""
        if code not in (
            UnknownMemberId.code,
            FencedInstanceId.code,
            IllegalGeneration.code,
            RebalanceInProgress.code,
            MemberIdRequired.code,
        ):
            raise Lost
        raise Rejoin


class Auditor:
    """Reads what a group has committed, without being a part of it."""

    def __init__(self, client: Client, group: str, partitions: Sequence[TopicPartition]) -> None:
        self._client = client
        self._group = group
        self._partitions = partitions

    async def run(self) -> None:
        while True:
            connection = await self._client.connect(OfGroup(self._group))
            try:
                while True:
                    partition = self._client.rng.choice(self._partitions)
                    seen = await committed_offset(connection, self._group, partition)
                    self._client.history.note(seen)
                    await self._client.think()
            except Lost:
                await self._client.back_off()


class Bookkeeper:
    """Commits on one connection, and reads on another what it has not been told to be durable.

    A group has one such connection in its life, so that no late commit can set it back.
    """

    def __init__(self, client: Client, partition: TopicPartition) -> None:
        self._client = client
        self._partition = partition
        self._group_count = 0

    async def run(self) -> None:
        while True:
            self._group_count += 1
            group = f"{self._client.name}-{self._group_count}"
            writing = await self._client.connect(OfGroup(group))
            reading = await self._client.connect(OfGroup(group))
            try:
                await self._keep(group, writing, reading)
            except Lost:
                await self._client.back_off()
            writing.drop()
            reading.drop()
            await self._look_back(group)

    async def _keep(self, group: str, writing: Connection, reading: Connection) -> None:
        history = self._client.history
        offset = 0
        while True:
            offset += self._client.rng.randint(1, 5)
            history.note(CommitTried(group, self._partition, offset))
            coming = writing.send(offset_commit, commit_request(group, self._partition, offset))
            while not coming.done():
                history.note(await committed_offset(reading, group, self._partition))
                await self._client.think()
            reply = await writing.wait(coming)
            (outcome,) = reply.message.topics[0].partitions
            if outcome.error_code:
                raise Lost
            history.note(Committed(reply.span, group, self._partition, offset))

    async def _look_back(self, group: str) -> None:
        """What was seen before the connections were lost must be there still."""
        connection = await self._client.connect(OfGroup(group))
        try:
            self._client.history.note(await committed_offset(connection, group, self._partition))
        except Lost:
            await self._client.back_off()
        connection.drop()


def commit_request(
    group: str,
    partition: TopicPartition,
    offset: int,
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> offset_commit.OffsetCommitRequest:
    committed = offset_commit.OffsetCommitRequestPartition(partition.partition, offset)
    return offset_commit.OffsetCommitRequest(
        group,
        generation,
        member_id,
        instance_id,
        topics=[offset_commit.OffsetCommitRequestTopic(partition.topic, [committed])],
    )


async def committed_offset(
    connection: Connection, group: str, partition: TopicPartition
) -> OffsetSeen:
    """In the form of every version at once; only one of them is encoded."""
    index = partition.partition
    request = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group, topics=[offset_fetch.OffsetFetchRequestTopics(partition.topic, [index])]
            )
        ],
        group_id=group,
        topics=[offset_fetch.OffsetFetchRequestTopic(partition.topic, [index])],
    )
    reply = await connection.ask(offset_fetch, request)
    response: offset_fetch.OffsetFetchResponse = reply.message
    answer = response.groups[0] if response.groups else response
    if answer.error_code:
        raise Lost
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise Lost
    return OffsetSeen(reply.span, group, partition, found.committed_offset)
