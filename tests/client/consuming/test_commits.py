"""Commits one after the other: as whom, for how long, and what a refusal does to the member."""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import nullcontext

import pytest

from semel.client.consuming.actions import MemberIdentity
from semel.client.consuming.commits import Commits
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.membership import Membership, Phase
from semel.client.consuming.membership_loop import MembershipLoop
from semel.client.consuming.partition import Position, Want
from semel.client.consuming.positions import Positions
from semel.client.consuming.settings import ConsumerOptions, settings_of
from semel.errors import RequestTimedOut, SemelError, TopicAuthorizationFailed
from semel.types import TopicPartition

PLACE = TopicPartition("t", 0)


class ScriptedCoordination(GroupCoordination):
    """Notes what is committed as whom, answers when it is let, and as it is told."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.refusal: SemelError | None = None
        self.committed_as: list[tuple[int, MemberIdentity]] = []

    async def commit(
        self, offsets: Mapping[TopicPartition, Position], identity: MemberIdentity, timeout_ms: int
    ) -> None:
        await self.may_answer.wait()
        if self.refusal is not None:
            raise self.refusal
        self.committed_as.append((offsets[PLACE].offset, identity))


class Member:
    def __init__(self, options: ConsumerOptions) -> None:
        settings = settings_of("g", options)
        self.coordination = ScriptedCoordination()
        self.membership = Membership(["t"], settings.assignors)
        self.membership.phase = Phase.STABLE
        self.membership.identity = MemberIdentity(1, "m")
        self.positions = Positions(1, 1, nullcontext())
        self.positions.add([PLACE], Want.COMMITTED)
        self.positions.seek(PLACE, 7)
        self.reported: list[SemelError] = []
        membership_loop = MembershipLoop(
            self.membership,
            self.coordination,
            settings,
            _no_partitions,
            lambda: None,
            self.reported.append,
        )
        self.commits = Commits(
            self.coordination,
            self.positions,
            settings,
            lambda: membership_loop,
            self.reported.append,
        )


async def _no_partitions(topics: Collection[str]) -> Mapping[str, int]:
    return {}


def test_a_commit_that_waits_for_its_turn_speaks_as_whom_it_was_asked_by() -> None:
    async def work() -> None:
        member = Member({})
        async with asyncio.TaskGroup() as tasks:
            for offset in (1, 2):
                tasks.create_task(member.commits.commit({PLACE: Position(offset)}))
            await asyncio.sleep(0)
            member.membership.identity = MemberIdentity(2, "m")
            member.coordination.may_answer.set()
        old = MemberIdentity(1, "m")
        assert member.coordination.committed_as == [(1, old), (2, old)]

    asyncio.run(work())


def test_a_commit_does_not_wait_for_its_turn_for_ever() -> None:
    async def work() -> None:
        member = Member({"block_timeout_ms": 20})
        results = await asyncio.gather(
            *(member.commits.commit({PLACE: Position(offset)}) for offset in range(50)),
            return_exceptions=True,
        )
        assert {type(each) for each in results} == {RequestTimedOut}

    asyncio.run(work())


def test_a_commit_that_is_not_allowed_does_not_end_the_membership() -> None:
    async def work() -> None:
        member = Member({})
        member.coordination.may_answer.set()
        member.coordination.refusal = TopicAuthorizationFailed("t is not yours")
        with pytest.raises(TopicAuthorizationFailed):
            await member.commits.commit({PLACE: Position(1)})
        assert member.membership.fatal is None
        assert not member.reported
        await member.commits.automatic()
        assert member.reported == [member.coordination.refusal]

    asyncio.run(work())
