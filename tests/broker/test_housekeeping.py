"""Housekeeping looks at the clock when something is due, not at every request."""

from itertools import pairwise
from random import Random

import pytest

from semel.broker.broker import Broker
from semel.broker.housekeeping import ROUND_MS
from semel.broker.server import Server
from semel.errors import NONE
from semel.journal.file.memory import MemoryDevice
from semel.types import GroupId
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.sync_group import SyncGroupRequest
from support.handled import call, opened, started
from support.inside import state_of
from support.seeded_loop import elapse, run


async def entered(broker: Broker, session_timeout_ms: int) -> str:
    """The id of the only member of group g, in its first generation."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    joining = JoinGroupRequest("g", session_timeout_ms, 60_000, "", None, "consumer", protocols)
    joined = await call(broker, "join_group", 3, joining)
    syncing = SyncGroupRequest("g", 1, joined.member_id)
    assert (await call(broker, "sync_group", 3, syncing)).error_code == NONE
    return str(joined.member_id)


def test_requests_of_groups_do_not_make_it_visit_every_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = Random(1)
    visits: list[int] = []
    monkeypatch.setattr(
        Server, "close_idle", lambda server: visits.append(round(server.loop.time() * 1000))
    )

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            member_id = await entered(broker, session_timeout_ms=60_000)
            for _ in range(100):
                beat = HeartbeatRequest("g", 1, member_id)
                assert (await call(broker, "heartbeat", 3, beat)).error_code == NONE
                await elapse(0.1)

    run(rng, main())
    assert len(visits) in (10, 11)
    pauses_ms = [later - earlier for earlier, later in pairwise(visits)]
    assert all(ROUND_MS <= pause_ms <= ROUND_MS + 1 for pause_ms in pauses_ms)


def test_a_deadline_nearer_than_the_next_look_is_kept() -> None:
    rng = Random(1)

    async def main() -> str:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            await elapse(0.5)
            await entered(broker, session_timeout_ms=100)
            await elapse(0.11)
            group = state_of(broker).groups.describe(GroupId("g"))
            assert group is not None
            return group.state

    assert run(rng, main()) == "Empty"
