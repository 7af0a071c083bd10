"""Groups of consumers against a real broker: shares, rebalances, callbacks and static members."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import pytest

from client.consuming.group_members import Member, Members
from semel import AsyncConsumer, AsyncProducer
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.refusals import CommitFailed
from semel.errors import FencedInstanceId
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics

ASSIGNORS = ["range", "round_robin", "cooperative-sticky"]


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(semel_broker.bootstrap_servers, name, 6)
    return name


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def shares(*members: Member) -> list[int]:
    return sorted(len(member.owned) for member in members)


async def send(servers: str, topic: str, count: int) -> None:
    async with AsyncProducer(servers) as producer:
        for number in range(count):
            await producer.send(topic, str(number), partition=number % 6)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_each_record_is_read_once_while_members_come_and_go(
    semel_broker: Broker, topic: str, assignor: str
) -> None:
    servers = semel_broker.bootstrap_servers

    async def work() -> None:
        members = Members(servers, topic, [topic])
        sent = 0
        async with members.member(assignor=assignor) as first:
            await members.until(lambda: shares(first) == [6])
            sent += 300
            await send(servers, topic, 300)
            async with members.member(assignor=assignor) as second:
                await members.until(lambda: shares(first, second) == [3, 3])
                sent += 300
                await send(servers, topic, 300)
                async with members.member(assignor=assignor) as third:
                    await members.until(lambda: shares(first, second, third) == [2, 2, 2])
                    sent += 300
                    await send(servers, topic, 300)
                    await members.until(lambda: len(members.read) == sent)
            await members.until(lambda: shares(first) == [6])
            sent += 300
            await send(servers, topic, 300)
            await members.until(lambda: len(members.read) == sent)
        assert set(members.read.values()) == {1}
        assert members.owners == {}

    run(work())


def test_cooperative_members_keep_what_they_may_keep(semel_broker: Broker, topic: str) -> None:
    async def work() -> None:
        members = Members(semel_broker.bootstrap_servers, topic, [topic])
        async with members.member() as first:
            await members.until(lambda: shares(first) == [6])
            async with members.member() as second:
                await members.until(lambda: shares(first, second) == [3, 3])
                given_up = [each for kind, each in first.events if kind == "revoked"]
                assert given_up == [tuple(sorted(second.owned))]
                told = [each for kind, part in first.events if kind == "assigned" for each in part]
                assert len(told) == len(set(told)) == 6

    run(work())


def test_eager_members_give_up_everything_before_they_get_anything(
    semel_broker: Broker, topic: str
) -> None:
    async def work() -> None:
        members = Members(semel_broker.bootstrap_servers, topic, [topic])
        async with members.member(assignor="range") as first:
            await members.until(lambda: shares(first) == [6])
            async with members.member(assignor="range") as second:
                await members.until(lambda: shares(first, second) == [3, 3])
                everything = tuple(TopicPartition(topic, number) for number in range(6))
                kinds = [kind for kind, _ in first.events]
                assert kinds == ["assigned", "revoked"] * (len(kinds) // 2) + ["assigned"]
                assert first.events[:2] == [("assigned", everything), ("revoked", everything)]
                assert len(first.events[-1][1]) == 3

    run(work())


def test_a_member_that_prefers_cooperation_joins_one_that_knows_only_ranges(
    semel_broker: Broker, topic: str
) -> None:
    async def work() -> None:
        members = Members(semel_broker.bootstrap_servers, topic, [topic])
        both = ("cooperative-sticky", "range")
        async with members.member(assignor="range") as first:
            await members.until(lambda: shares(first) == [6])
            async with members.member(assignor=both) as second:
                await members.until(lambda: shares(first, second) == [3, 3])

    run(work())


def test_a_static_member_comes_back_without_a_rebalance(semel_broker: Broker, topic: str) -> None:
    async def work() -> None:
        members = Members(semel_broker.bootstrap_servers, topic, [topic])
        async with members.member(group_instance_id="one") as first:
            async with members.member(group_instance_id="two") as second:
                await members.until(lambda: shares(first, second) == [3, 3])
                generation = first.consumer.membership.generation_id
                await members.until(lambda: second.consumer.membership.generation_id == generation)
                had = set(second.owned)
            events = list(first.events)
            async with members.member(group_instance_id="two") as second:
                await members.until(lambda: second.owned == had)
                assert second.consumer.membership.generation_id == generation
            assert first.events == events

    run(work())


def test_of_two_static_members_of_one_name_the_older_one_stops(
    semel_broker: Broker, topic: str
) -> None:
    async def work() -> None:
        members = Members(semel_broker.bootstrap_servers, topic, [topic])
        async with members.member(group_instance_id="one") as first:
            await members.until(lambda: shares(first) == [6])
            # A slow broker may not have known the topic when it assigned for the first time.
            events_before = len(first.events)
            # The newer one is the owner before the older one can know.
            members.owners.clear()
            async with members.member(group_instance_id="one") as second:
                await members.until(lambda: first.error is not None)
                assert isinstance(first.error, FencedInstanceId)
                await members.until(lambda: shares(second) == [6])
                assert [kind for kind, _ in first.events[events_before:]] == ["lost"]

    run(work())


def test_a_member_that_stays_away_too_long_loses_its_share_and_comes_back(
    semel_broker: Broker, topic: str
) -> None:
    async def work() -> None:
        servers = semel_broker.bootstrap_servers
        members = Members(servers, topic, [topic])
        async with (
            members.member(max_poll_interval_ms=1_000) as first,
            members.member() as second,
        ):
            await members.until(lambda: shares(first, second) == [3, 3])
            # It polls again only when another has had all it had.
            members.owners = {
                place: owner for place, owner in members.owners.items() if owner is not first
            }
            first.may_poll.clear()
            await members.until(lambda: shares(second) == [6])
            with pytest.raises(CommitFailed):
                await first.consumer.commit()
            first.may_poll.set()
            await members.until(lambda: shares(first, second) == [3, 3])
            assert "lost" in [kind for kind, _ in first.events]
            assert "lost" not in [kind for kind, _ in second.events]

    run(work())


def test_a_member_that_stayed_away_gets_nothing_of_its_old_share_while_it_is_leaving(
    semel_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        is_leaving, may_leave = asyncio.Event(), asyncio.Event()

        async def leave(coordination: GroupCoordination, member_id: str) -> None:
            is_leaving.set()
            await may_leave.wait()

        servers = semel_broker.bootstrap_servers
        await send(servers, topic, 60)
        lost: list[TopicPartition] = []
        consumer = AsyncConsumer(servers, topic, max_poll_interval_ms=100, heartbeat_interval_ms=50)
        async with consumer:
            await consumer.subscribe(topic, on_lost=lost.extend)
            while not await consumer.poll(max_records=1):
                pass
            before = consumer.membership
            monkeypatch.setattr(GroupCoordination, "leave", leave)
            await is_leaving.wait()
            # What it commits now is refused, since it says who it was.
            assert consumer.membership == before
            assert await consumer.poll(0) == []
            assert len(lost) == 6
            may_leave.set()
            monkeypatch.undo()
            while not await consumer.poll(max_records=1):
                pass
            assert consumer.membership.member_id != before.member_id

    run(work())


def test_new_partitions_and_new_topics_of_a_pattern_are_noticed(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers

    async def work() -> None:
        members = Members(servers, topic, re.compile(re.escape(topic) + ".*"))
        async with members.member() as first, members.member() as second:
            await members.until(lambda: shares(first, second) == [3, 3])
            await asyncio.to_thread(topics.create, servers, f"{topic}-more", 2)
            await members.until(lambda: shares(first, second) == [4, 4])
            await asyncio.to_thread(topics.grow, servers, f"{topic}-more", 4)
            await members.until(lambda: shares(first, second) == [5, 5])

    run(work())


def test_a_topic_may_come_after_its_subscription(semel_broker: Broker, topic: str) -> None:
    servers = semel_broker.bootstrap_servers

    async def work() -> None:
        members = Members(servers, topic, f"{topic}-later")
        async with members.member() as member:
            await members.until(lambda: member.events == [("assigned", ())])
            await asyncio.to_thread(topics.create, servers, f"{topic}-later", 1)
            await members.until(lambda: shares(member) == [1])

    run(work())


def test_another_subscription_replaces_the_first(semel_broker: Broker, topic: str) -> None:
    servers = semel_broker.bootstrap_servers
    topics.create(servers, f"{topic}-other", 1)

    async def work() -> None:
        async with AsyncConsumer(servers, topic, heartbeat_interval_ms=100) as consumer:
            await consumer.subscribe([topic])
            while not consumer.assignment:
                await consumer.poll(100)
            events: list[tuple[str, int]] = []
            await consumer.subscribe(
                f"{topic}-other",
                on_assigned=lambda places: events.append(("assigned", len(places))),
                on_revoked=lambda places: events.append(("revoked", len(places))),
            )
            while consumer.assignment != {TopicPartition(f"{topic}-other", 0)}:
                await consumer.poll(100)
            assert consumer.subscription == {f"{topic}-other"}
            await consumer.unsubscribe()
            assert consumer.assignment == frozenset()
            assert consumer.subscription == frozenset()
            assert events[-1] == ("revoked", 1)
            # By hand, and in the same group.
            consumer.assign([TopicPartition(topic, 0)])
            await send(servers, topic, 12)
            assert [record.offset for record in await consumer.poll(30_000, 2)] == [0, 1]
            await consumer.commit()
            assert await consumer.committed() == {TopicPartition(topic, 0): 2}

    run(work())
