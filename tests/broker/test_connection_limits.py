"""How many connections there may be, and how many new ones: in all, and at each listener."""

import contextlib
import ssl
from dataclasses import replace
from pathlib import Path

from semel.broker.broker import Broker
from semel.broker.config import BrokerConfig
from semel.testing import Broker as BrokerProcess
from semel.wire.messages.metadata import MetadataRequest
from support.authority import Authority
from support.handled import CONFIG, Machine, on_a
from support.raw_client import RawClient
from support.secured_in_thread import At
from support.seeded_loop import elapse
from support.signing_in import ports_of
from support.wired_client import Wire


def limited(**settings: int) -> BrokerConfig:
    """`clients__max_connections` is that of the listener CLIENTS."""
    of_all = {name: value for name, value in settings.items() if "__" not in name}
    of_one = [(*name.split("__", 1), value) for name, value in settings.items() if "__" in name]
    by_listener = tuple((listener, field, value) for listener, field, value in of_one)
    return replace(CONFIG, **of_all, by_listener=by_listener)  # type: ignore[arg-type]


def come(broker: Broker, listener: str, count: int) -> list[Wire]:
    return [Wire(broker.connection(listener)) for _ in range(count)]


def stay(clients: list[Wire]) -> list[bool]:
    return [not each.is_cut_off for each in clients]


@on_a(Machine, limited(max_connections=5, clients__max_connections=2))
async def test_a_listener_has_its_own_limit_besides_that_of_all(machine: Machine) -> None:
    async with machine.broker() as broker:
        clients = come(broker, "CLIENTS", 4)
        assert stay(clients) == [True] * 2 + [False] * 2
        others = come(broker, "OTHERS", 5)
        assert stay(others) == [True] * 3 + [False] * 2
        clients[0].leave()
        await elapse(0.1)
        assert stay(come(broker, "clients", 2)) == [True, False]


@on_a(Machine, limited(max_connection_creation_rate=2, clients__max_connection_creation_rate=1))
async def test_so_many_may_come_each_second(machine: Machine) -> None:
    async with machine.broker() as broker:
        # What comes at once is spread over ten windows of a second.
        assert stay(come(broker, "CLIENTS", 12)) == [True] * 10 + [False] * 2
        assert stay(come(broker, "OTHERS", 12)) == [True] * 10 + [False] * 2
        await elapse(12.0)
        assert stay(come(broker, "CLIENTS", 1)) == [True]


@on_a(Machine, limited(max_connections=3, max_connection_creation_rate=1))
async def test_clients_leave_room_for_nodes_that_have_a_listener(machine: Machine) -> None:
    async with machine.broker() as broker:
        broker.host.hear_nodes_at("INSIDE", has_others=True)
        clients = come(broker, "CLIENTS", 3)
        await elapse(0.1)
        clients[0].send(b"\0\0")
        assert stay(come(broker, "INSIDE", 10)) == [True] * 10
        await elapse(0.1)
        # Those went first that were silent.
        assert stay(clients) == [False] * 3
        assert stay(come(broker, "CLIENTS", 1)) == [False]


@on_a(Machine, limited(max_connections=3))
async def test_a_listener_that_clients_share_with_nodes_is_theirs_as_well(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        broker.host.hear_nodes_at("BOTH", has_others=False)
        assert stay(come(broker, "BOTH", 4)) == [True] * 3 + [False]


def test_who_is_too_many_at_a_listener_with_tls_is_not_even_shaken_hands_with(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": authority.certificate("broker"),
        "listener.name.ssl.max.connections": 1,
        "listener.name.plaintext.max.connections": 2,
    }
    trusting = ssl.create_default_context(cafile=str(authority.trusted))
    with BrokerProcess(settings=settings) as broker, contextlib.ExitStack() as stack:
        ports = ports_of(broker.ready)

        def connected(listener: str) -> RawClient:
            return stack.enter_context(RawClient(At(ports[listener])))

        first = connected("SSL")
        first._socket = trusting.wrap_socket(first._socket, server_hostname="localhost")
        first.call("metadata", 9, MetadataRequest(None))
        with contextlib.suppress(ConnectionResetError):
            assert connected("SSL").is_closed_by_broker
        for _ in range(2):
            connected("PLAINTEXT").call("metadata", 9, MetadataRequest(None))
        with contextlib.suppress(ConnectionResetError):
            assert connected("PLAINTEXT").is_closed_by_broker
        first.call("metadata", 9, MetadataRequest(None))
