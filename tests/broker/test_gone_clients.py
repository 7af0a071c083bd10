"""A client that is gone leaves nothing behind that waits for it."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from semel.broker.connection import Connection
from semel.errors import NONE, MemberIdRequired
from semel.groups.commands import Command, ForgetIds, Ticket
from semel.groups.deciding import GroupDecision
from semel.journal.file.memory import MemoryDevice
from semel.testing import Broker
from semel.types import GroupId
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.sync_group import SyncGroupRequest
from semel.world import Moment
from support import handled
from support.handled import opened, started
from support.inside import state_of
from support.raw_client import RawClient, decoded_reply, encoded, request_frame

CONFIG = replace(handled.CONFIG, group_initial_rebalance_delay_ms=60_000)
TICKS = 10


class SilentTransport(asyncio.Transport):
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


def join_request(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        "g", 60_000, 60_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )


def received(connection: Connection, request: JoinGroupRequest, version: int = 3) -> None:
    frame = request_frame("join_group", version, encoded("join_group", version, request))
    connection.get_buffer(-1)[: len(frame)] = frame
    connection.buffer_updated(len(frame))


def test_a_member_whose_connection_is_lost_in_the_tick_of_its_request_does_not_wait() -> None:
    async def main() -> None:
        rng = Random(1)
        broker = opened(MemoryDevice(rng), rng, CONFIG)
        async with started(broker):
            connection = broker.connection()
            connection.connection_made(SilentTransport())
            received(connection, join_request())
            assert broker.lanes.controller.waiting_room.waiting_count == 1
            connection.connection_lost(None)
            for _ in range(TICKS):
                await asyncio.sleep(0)
            assert broker.lanes.controller.waiting_room.waiting_count == 0

    asyncio.run(main())


def test_a_reply_that_comes_in_the_tick_of_its_clients_loss_is_not_counted_as_unread() -> None:
    async def main() -> None:
        rng = Random(1)
        broker = opened(MemoryDevice(rng), rng, replace(CONFIG, group_initial_rebalance_delay_ms=0))
        async with started(broker):
            room_bytes = broker.reply_room_bytes
            first, second = broker.connection(), broker.connection()
            for connection in (first, second):
                connection.connection_made(SilentTransport())
                received(connection, join_request())
            assert broker.lanes.controller.waiting_room.waiting_count == 1
            group = state_of(broker).groups.describe(GroupId("g"))
            assert group is not None
            received(first, join_request(group.members[0].member_id))
            first.connection_lost(None)
            second.connection_lost(None)
            for _ in range(TICKS):
                await asyncio.sleep(0)
            assert broker.reply_room_bytes == room_bytes

    asyncio.run(main())


def test_nobody_waits_for_a_client_that_was_given_an_id_and_is_gone() -> None:
    with Broker() as broker, RawClient(broker) as old, RawClient(broker) as new:
        old_id = entered(old)
        with RawClient(broker) as gone:
            assert gone.call("join_group", 9, join_request()).error_code == MemberIdRequired.code
        new_id = new.call("join_group", 9, join_request()).member_id
        new.send(request_frame("join_group", 9, encoded("join_group", 9, join_request(new_id))))
        assert old.call("join_group", 9, join_request(old_id)).generation_id == 2
        reply = new.receive()
        assert reply is not None
        assert decoded_reply("join_group", 9, reply).generation_id == 2


def test_all_ids_that_a_client_was_given_go_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # One by one, thousands of them would hold up everybody else.
    async def main() -> None:
        rng = Random(1)
        broker = opened(MemoryDevice(rng), rng, CONFIG)
        async with started(broker):
            steps: list[int] = []
            groups = state_of(broker).groups
            decide = groups.decide

            def counted(command: Command, ticket: Ticket, at: Moment) -> GroupDecision:
                if isinstance(command, ForgetIds):
                    steps.append(len(command.member_ids))
                return decide(command, ticket, at)

            monkeypatch.setattr(groups, "decide", counted)
            connection = broker.connection()
            connection.connection_made(SilentTransport())
            for _ in range(50):
                received(connection, join_request(), version=9)
            connection.connection_lost(None)
            assert steps == [50]
            assert groups.describe(GroupId("g")) is None

    asyncio.run(main())


def test_an_id_outlives_the_connection_that_it_was_used_on() -> None:
    with Broker() as broker, RawClient(broker) as other:
        with RawClient(broker) as gone:
            member_id = entered(gone)
        beat = HeartbeatRequest("g", 1, member_id)
        assert other.call("heartbeat", 4, beat).error_code == NONE


def entered(client: RawClient) -> str:
    """The id of the only member of a stable group."""
    member_id: str = client.call("join_group", 9, join_request()).member_id
    assert client.call("join_group", 9, join_request(member_id)).generation_id == 1
    sync = SyncGroupRequest("g", 1, member_id, None, "consumer", "range", [])
    assert client.call("sync_group", 5, sync).error_code == NONE
    return member_id
