"""Partitions that move, members that are thrown out, producers that are shut out."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from semel import App, Record, Transaction
from semel.app.progress import ListenerState
from semel.client.admin import groups, transactions
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.consuming.settings import ConsumerOptions
from semel.wire.messages import leave_group
from support.app_topics import Topics, group_offsets, numbers, spread
from support.looking import until
from support.topics import fill, values

_Result = TypeVar("_Result")

ATTENTIVE: ConsumerOptions = {"heartbeat_interval_ms": 50}
"""Notices soon what its group does."""


def ask(servers: str, question: Callable[[Cluster], Awaitable[_Result]]) -> _Result:
    async def asked() -> _Result:
        async with Cluster(parse_bootstrap_servers(servers)) as cluster:
            return await question(cluster)

    return asyncio.run(asked())


def copying(topics: Topics, app: App) -> None:
    @app.listener(topics.source, group=topics.group, name="copy", records_max=7, **ATTENTIVE)
    @app.transactional
    def copy(record: Record, out: Transaction) -> None:
        out.send(topics.target, value=record.value)


def test_partitions_move_between_applications_at_work(topics: Topics) -> None:
    app = App(topics.servers)
    copying(topics, app)
    sent = numbers(3_000)

    async def scenario() -> None:
        filling = asyncio.to_thread(spread, topics.servers, topics.source, sent)
        async with app.running() as first:
            await until(lambda: len(first.counts()["copy"].partitions) == 2)
            await filling
            async with app.running() as second:
                await until(lambda: len(second.counts()["copy"].partitions) == 1)
                await until(lambda: len(first.counts()["copy"].partitions) == 1)
            await first.idle()

    asyncio.run(scenario())
    assert values(topics.servers, topics.target) == sent


def throw_out_members(topics: Topics) -> None:
    async def leave(cluster: Cluster) -> None:
        group = await groups.describe(cluster, topics.group)
        gone = [leave_group.MemberIdentity(member.member_id) for member in group.members]
        assert gone
        for each in gone:
            request = leave_group.LeaveGroupRequest(topics.group, [each], each.member_id)
            await cluster.call_coordinator(topics.group, leave_group, request)

    ask(topics.servers, leave)


def test_a_member_that_is_thrown_out_at_work_commits_nothing_and_comes_back(
    topics: Topics,
) -> None:
    app = App(topics.servers)
    seen: list[bytes] = []

    @app.listener(topics.source, group=topics.group, name="copy", **ATTENTIVE)
    @app.transactional
    def copy(record: Record, out: Transaction) -> None:
        seen.append(record.value)
        if seen == [b"000000"]:
            throw_out_members(topics)
        out.send(topics.target, value=record.value)

    fill(topics.servers, topics.source, numbers(20))
    (counts,) = app.run_until_idle().values()
    assert values(topics.servers, topics.target) == numbers(20)
    assert counts.transactions_aborted == 1
    assert seen.count(b"000000") == 2


def test_a_member_that_finds_itself_thrown_out_while_it_works_commits_nothing(
    topics: Topics,
) -> None:
    app = App(topics.servers)
    is_thrown_out, has_noticed = threading.Event(), threading.Event()

    @app.listener(topics.source, group=topics.group, name="copy", **ATTENTIVE)
    @app.transactional
    def copy(record: Record, out: Transaction) -> None:
        if not is_thrown_out.is_set():
            throw_out_members(topics)
            is_thrown_out.set()
            assert has_noticed.wait(60)
        out.send(topics.target, value=record.value)

    fill(topics.servers, topics.source, numbers(20))

    async def scenario() -> int:
        async with app.running() as run:
            (member,) = run._all()
            await until(is_thrown_out.is_set)
            attendance = member.consumer._engine._membership_loop
            assert attendance is not None
            await until(lambda: not attendance.membership.is_member)
            has_noticed.set()
            await run.idle()
        return run.counts()["copy"].transactions_aborted

    assert asyncio.run(scenario()) == 1
    assert values(topics.servers, topics.target) == numbers(20)


def test_an_application_whose_producer_was_shut_out_makes_another(topics: Topics) -> None:
    prefix = f"{topics.group}-id"
    app = App(topics.servers, transactional_id_prefix=prefix)
    seen: list[bytes] = []

    async def ids(cluster: Cluster) -> list[str]:
        listed = [each.transactional_id for each in await transactions.list_all(cluster)]
        return [each for each in listed if each.startswith(prefix)]

    async def shut_out(cluster: Cluster) -> None:
        (transactional_id,) = await ids(cluster)
        await transactions.fence(cluster, transactional_id, 1_000)

    @app.listener(topics.source, group=topics.group, name="copy")
    @app.transactional
    def copy(record: Record, out: Transaction) -> None:
        seen.append(record.value)
        if seen.count(b"000010") == 1:
            ask(topics.servers, shut_out)
            seen.append(b"000010")
        out.send(topics.target, value=record.value)

    async def scenario() -> None:
        async with app.running() as run:
            for start in (0, 10):
                await asyncio.to_thread(
                    fill, topics.servers, topics.source, numbers(10, start=start)
                )
                await run.idle()

    asyncio.run(scenario())
    assert values(topics.servers, topics.target) == numbers(20)
    assert len(ask(topics.servers, ids)) == 2


def test_a_stop_finishes_the_record_at_work_and_begins_no_other(topics: Topics) -> None:
    app = App(topics.servers)
    at_work, is_stopping = threading.Event(), threading.Event()

    @app.listener(topics.source, group=topics.group, name="copy")
    @app.transactional
    def copy(record: Record, out: Transaction) -> None:
        out.send(topics.target, value=record.value)
        if record.value == b"000003":
            at_work.set()
            assert is_stopping.wait(60)

    fill(topics.servers, topics.source, numbers(10))

    async def scenario() -> ListenerState:
        async with app.running() as run:
            assert await asyncio.to_thread(at_work.wait, 60)
            run.stop()
            is_stopping.set()
        return run.counts()["copy"].state

    assert asyncio.run(scenario()) is ListenerState.STOPPED
    assert values(topics.servers, topics.target) == numbers(4)
    assert list(group_offsets(topics.servers, topics.group).values()) == [4]
    group = ask(topics.servers, lambda cluster: groups.describe(cluster, topics.group))
    assert group.members == ()


def test_a_function_that_never_returns_does_not_keep_the_application(topics: Topics) -> None:
    app = App(topics.servers, stop_timeout_ms=50)
    at_work, released = threading.Event(), threading.Event()

    @app.listener(topics.source, group=topics.group)
    @app.transactional
    def stuck(record: Record, out: Transaction) -> None:
        out.send(topics.target, value=record.value)
        at_work.set()
        released.wait()

    fill(topics.servers, topics.source, numbers(1))

    async def scenario() -> None:
        async with app.running():
            assert await asyncio.to_thread(at_work.wait, 60)

    try:
        asyncio.run(scenario())
    finally:
        released.set()
    assert values(topics.servers, topics.target) == []
    assert group_offsets(topics.servers, topics.group) == {}
