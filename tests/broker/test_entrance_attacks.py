"""What was tried on the entrance: by whom is answered before a sign-in, and at what cost."""

import asyncio
import struct
from pathlib import Path
from random import Random

import pytest

from semel.access.principal import ANONYMOUS
from semel.access.quotas import Entity, Kind
from semel.access.sasl import Disguise, ScramExchange
from semel.access.scram import Credential, Mechanism, credential
from semel.access.users import Users, UsersView
from semel.broker.connection import Connection
from semel.client.connecting.sasl import exchange
from semel.cluster.desk import Desk
from semel.cluster.keys import OnlyKey
from semel.cluster.messages import AnyAnswer, AnyRequest, Refused
from semel.cluster.session import NONCE_SIZE, Session
from semel.lane.quotas import AlterQuotas
from semel.lane.users import AlterUser
from semel.security import Sasl
from semel.wire.apis import NODE_CALL, NODE_CHALLENGE
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.handled import SeededRandomness
from support.knocking import PASSWORD, USER, Knocks, knocks
from support.raw_client import decoded_reply, encoded, request_frame
from support.seeded_loop import elapse, run
from support.wired_client import Wire

MECHANISM = Mechanism.SCRAM_SHA_256


class CountedDisguise(Disguise):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def of(self, users: UsersView, name: str, mechanism: Mechanism, key: bytes) -> Credential:
        self.count += 1
        return super().of(users, name, mechanism, key)


@pytest.mark.parametrize("name", [USER, "nobody"])
def test_who_exists_is_not_told_by_what_the_first_answer_takes(name: str) -> None:
    users = Users()
    users.draw(b"k" * 32)
    users.set(USER, credential(MECHANISM, b"x", b"s" * 16, 4096))
    disguise = CountedDisguise()
    offered = ScramExchange(MECHANISM, users, disguise, b"k", "nonce").first(
        f"n,,n={name},r=mine".encode()
    )
    assert disguise.count == 1
    assert len(offered) == len(b"r=minenonce,s=,i=4096") + 24


def authenticate(message: bytes) -> bytes:
    body = encoded("sasl_authenticate", 2, SaslAuthenticateRequest(message))
    return request_frame("sasl_authenticate", 2, body)


def principal_of(wire: Wire) -> object:
    connection = wire.get_protocol()
    assert isinstance(connection, Connection)
    return connection.caller.principal


def test_what_was_overheard_of_a_sign_in_is_of_no_use(tmp_path: Path) -> None:
    async def main() -> None:
        async with knocks(tmp_path, 1) as knocking:
            heard: list[bytes] = []
            wire = knocking.wire("OPEN")
            body = encoded("sasl_handshake", 1, SaslHandshakeRequest("SCRAM-SHA-256"))
            heard.append(request_frame("sasl_handshake", 1, body))
            wire.send(heard[0])
            await wire.receive()
            messages = exchange(Sasl("SCRAM-SHA-256", USER, PASSWORD), "nonce")
            message = next(messages)
            for _ in range(2):
                heard.append(authenticate(message))
                wire.send(heard[-1])
                reply = decoded_reply("sasl_authenticate", 2, await wire.receive())
                assert reply.error_code == 0
                if len(heard) < 3:
                    message = messages.send(bytes(reply.auth_bytes))
            assert str(principal_of(wire)) == f"User:{USER}"
            for how in (heard, [heard[0], heard[2]], [heard[2]], [heard[0], heard[1], *heard]):
                other = knocking.wire("OPEN")
                for frame in how:
                    other.send(frame)
                    await elapse(0.2)
                assert principal_of(other) == ANONYMOUS
                assert other.is_cut_off
            wire.leave()

    run(Random(1), main())


CHANGED = AlterUser(USER, tuple(credential(each, b"new", b"s" * 16, 4096) for each in Mechanism))
DELETED = AlterUser(USER, dropped=tuple(Mechanism))


@pytest.mark.parametrize("change", [CHANGED, DELETED], ids=["changed", "deleted"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_that_ends_in_the_middle_of_a_sign_in_is_none(
    tmp_path: Path, mechanism: str, change: AlterUser
) -> None:
    async def sign_in(knocking: Knocks, password: str, changes: list[AlterUser]) -> Wire:
        wire, checks = knocking.wire("OPEN"), knocking._desk.checks
        body = encoded("sasl_handshake", 1, SaslHandshakeRequest(mechanism))
        wire.send(request_frame("sasl_handshake", 1, body))
        await wire.receive()
        messages = exchange(Sasl(mechanism, USER, password), "nonce")
        message = next(messages)
        if mechanism != "PLAIN":
            wire.send(authenticate(message))
            reply = decoded_reply("sasl_authenticate", 2, await wire.receive())
            message = messages.send(bytes(reply.auth_bytes))
        await checks.begin("another host")
        if mechanism == "PLAIN":
            wire.send(authenticate(message))
            await elapse(0.2)
        for each in changes:
            knocking.broker.lanes.controller.submit(each)
        if mechanism != "PLAIN":
            wire.send(authenticate(message))
        checks.end()
        await wire.receive()
        return wire

    async def main() -> None:
        async with knocks(tmp_path, 1) as knocking:
            wire = await sign_in(knocking, PASSWORD, [])
            assert str(principal_of(wire)) == f"User:{USER}"
            wire.leave()
            wire = await sign_in(knocking, PASSWORD, [change])
            assert principal_of(wire) == ANONYMOUS
            assert wire.is_cut_off

    run(Random(1), main())


def test_who_was_refused_is_gone_in_time_though_it_does_not_close(tmp_path: Path) -> None:
    async def main() -> None:
        async with knocks(tmp_path, 1) as knocking:
            wire = knocking.wire("OPEN")
            # As over TLS, where a connection is closed when the client has agreed.
            wire.close = lambda: None  # type: ignore[method-assign]
            wire.send(authenticate(b"no handshake before"))
            reply = decoded_reply("sasl_authenticate", 2, await wire.receive())
            assert reply.error_code
            await elapse(9)
            assert not wire.is_cut_off
            await elapse(2)
            assert wire.is_cut_off

    run(Random(1), main())


def test_an_address_that_connects_too_often_is_turned_away_before_anything_is_read(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with knocks(tmp_path, 1) as knocking:
            entity = Entity(ip="10.128.0.1")
            command = AlterQuotas(entity, {"connection_creation_rate": 1.0})
            knocking.broker.lanes.controller.submit(command)
            knocking.broker.quotas_changed(entity)
            for gate in ("OPEN", "SECURE"):
                wires = [knocking.wire(gate) for _ in range(12)]
                assert [wire.is_cut_off for wire in wires] == [False] * 10 + [True] * 2
                for wire in wires:
                    wire.leave()
                await elapse(12)
            assert knocking.broker.metering.throttled[Kind.CONNECTIONS] == 4

    run(Random(1), main())


def test_who_comes_while_the_keys_of_tokens_are_read_waits_for_them(tmp_path: Path) -> None:
    """After a start all come at once; a refusal would be final for them."""

    async def main() -> None:
        async with knocks(tmp_path, 1) as knocking, asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(knocking.come_in_by_token())

    run(Random(1), main())


KEY = OnlyKey(b"k" * 32)


def node_frame(key: int, content: bytes) -> bytes:
    head = struct.pack(">hhih", key, 0, 1, -1)
    return struct.pack(">i", len(head) + len(content)) + head + content


async def refuse(asked: AnyRequest) -> AnyAnswer:
    return Refused("not here")


def as_node(knocking: Knocks) -> Wire:
    """A connection on which a challenge was answered."""
    knocking.broker.host.node = Desk(KEY, SeededRandomness(Random(1)), refuse)
    wire = knocking.wire("OPEN", is_for_nodes=True)
    wire.send(node_frame(NODE_CHALLENGE.key, b"n" * NONCE_SIZE))
    return wire


def test_who_only_claims_to_be_a_node_may_send_no_more_than_a_first_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with knocks(tmp_path, 1) as knocking:
            for size, is_taken in ((2**20, True), (2**20 + 1, False)):
                wire = as_node(knocking)
                await wire.receive()
                wire.send(struct.pack(">i", size) + b"x")
                assert wire.is_cut_off is not is_taken
                wire.leave()
            silent, wrong = as_node(knocking), as_node(knocking)
            wrong.send(node_frame(NODE_CALL.key, b"c" * 32 + b"said"))
            assert wrong.is_cut_off
            await elapse(11)
            assert silent.is_cut_off

    run(Random(1), main())


def test_a_node_that_has_proved_itself_stays_and_may_send_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with knocks(tmp_path, 1) as knocking:
            wire = as_node(knocking)
            own_nonce = (await wire.receive())[4:]
            session = Session(KEY.newest, b"n" * NONCE_SIZE, own_nonce)
            wire.send(node_frame(NODE_CALL.key, session.sign_call(b"not understood")))
            await wire.receive()
            wire.send(struct.pack(">i", 2**21) + b"x")
            await elapse(30)
            assert not wire.is_cut_off
            wire.leave()

    run(Random(1), main())
