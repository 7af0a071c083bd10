"""A coordinator that moves, is away or talks nonsense: what a member hears, and asks next."""

import asyncio
from typing import Any, Unpack

import pytest

import semel
from semel.client.cluster.cluster import Cluster, CoordinatorOf
from semel.client.consuming.actions import Join, MemberIdentity
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.partition import Position
from semel.client.consuming.settings import ConsumerOptions, settings_of
from semel.errors import (
    CoordinatorLoadInProgress,
    FencedInstanceId,
    NetworkException,
    NotCoordinator,
    RebalanceInProgress,
    RequestTimedOut,
    SaslAuthenticationFailed,
    SemelError,
    UnknownMemberId,
    UnsupportedVersion,
)
from semel.security import Sasl, Security, Tls
from semel.types import TopicPartition
from semel.wire.messages import heartbeat, offset_commit
from support.secured_server import PASSWORD, USER, secured_server

ME = MemberIdentity(1, "me")


class Answered:
    def __init__(self, reply: Any) -> None:
        self._reply = reply

    async def reply(self, timeout_ms: int) -> Any:
        return self._reply


class MovingCoordinator(Cluster):
    """Gives these answers in turn, and counts how often the coordinator was asked for."""

    def __init__(self, *answers: Any) -> None:
        super().__init__([])
        self.answers = list(answers)
        self.found_count = 0

    async def _find(self, kind: CoordinatorOf, key: str) -> int:
        self.found_count += 1
        return self.found_count

    async def _relearn(self) -> None:
        self.forget_coordinator("g")

    def _answer(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask(self, node_id: int, messages: Any, request: Any) -> Any:
        return Answered(self._answer())

    async def call(self, node_id: int, messages: Any, request: Any) -> Any:
        return self._answer()

    async def version_of(self, node_id: int, messages: Any) -> int:
        return 4


def coordination(cluster: Cluster, **options: Unpack[ConsumerOptions]) -> GroupCoordination:
    return GroupCoordination(cluster, cluster, "g", settings_of("g", options))


def beat(code: int) -> heartbeat.HeartbeatResponse:
    return heartbeat.HeartbeatResponse(error_code=code)


@pytest.mark.parametrize(
    ("answer", "error", "is_asked_for_again"),
    [
        (beat(NotCoordinator.code), NotCoordinator, True),
        (beat(CoordinatorLoadInProgress.code), CoordinatorLoadInProgress, True),
        (NetworkException("gone"), NetworkException, True),
        (beat(UnknownMemberId.code), UnknownMemberId, False),
        (beat(RebalanceInProgress.code), RebalanceInProgress, False),
        (beat(FencedInstanceId.code), FencedInstanceId, False),
    ],
)
def test_a_coordinator_that_is_none_any_more_is_asked_for_anew(
    answer: Any, error: type[SemelError], is_asked_for_again: bool
) -> None:
    cluster = MovingCoordinator(answer, beat(0))

    async def work() -> None:
        members = coordination(cluster)
        with pytest.raises(error):
            await members.beat(ME)
        await members.beat(ME)

    asyncio.run(work())
    assert cluster.found_count == (2 if is_asked_for_again else 1)


def committed(code: int) -> offset_commit.OffsetCommitResponse:
    partition = offset_commit.OffsetCommitResponsePartition(0, code)
    return offset_commit.OffsetCommitResponse(
        topics=[offset_commit.OffsetCommitResponseTopic("t", [partition])]
    )


def test_a_commit_follows_its_coordinator() -> None:
    cluster = MovingCoordinator(committed(NotCoordinator.code), committed(0))
    offsets = {TopicPartition("t", 0): Position(5)}
    asyncio.run(coordination(cluster).commit(offsets, ME, 30_000))
    assert cluster.found_count == 2


def test_a_commit_that_nobody_takes_is_given_up() -> None:
    cluster = MovingCoordinator(*[committed(NotCoordinator.code)] * 50)
    offsets = {TopicPartition("t", 0): Position(5)}
    with pytest.raises((NotCoordinator, RequestTimedOut)):
        asyncio.run(coordination(cluster).commit(offsets, ME, 200))


def test_static_members_need_brokers_that_know_them() -> None:
    cluster = MovingCoordinator()
    with pytest.raises(UnsupportedVersion, match="too old"):
        asyncio.run(coordination(cluster, group_instance_id="one").join(Join("", ())))


@pytest.mark.parametrize("is_member", [False, True])
def test_who_may_not_sign_in_hears_so_from_poll(is_member: bool) -> None:
    security = Security(sasl=Sasl("PLAIN", USER, PASSWORD + "?"))

    async def work() -> None:
        async with (
            secured_server(has_tls=False, mechanism="PLAIN") as address,
            semel.AsyncConsumer(str(address), "g", security=security) as consumer,
        ):
            if is_member:
                await consumer.subscribe("t")
            else:
                consumer.assign([TopicPartition("t", 0)])
            with pytest.raises(SaslAuthenticationFailed):
                await consumer.poll(30_000)

    asyncio.run(work())


@pytest.mark.parametrize("is_member", [False, True])
def test_who_does_not_trust_the_broker_hears_so_from_poll(is_member: bool) -> None:
    async def work() -> None:
        async with (
            secured_server(has_tls=True, mechanism="PLAIN") as address,
            semel.AsyncConsumer(str(address), "g", security=Security(Tls())) as consumer,
        ):
            if is_member:
                await consumer.subscribe("t")
            else:
                consumer.assign([TopicPartition("t", 0)])
            with pytest.raises(SaslAuthenticationFailed, match="is not trusted"):
                await consumer.poll(30_000)

    asyncio.run(work())
