"""The listeners of a broker while it runs: who may pass where, certificates that change, sessions
that end."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.access.scram import Mechanism, credential
from semel.broker import log
from semel.broker.certificates import Certificates
from semel.broker.door import Gate
from semel.broker.endpoints import Address, Endpoint, written
from semel.broker.initial_users import initial_users
from semel.broker.listeners import OAUTHBEARER, Listener
from semel.broker.reception import Reception
from semel.broker.serving import BACKLOG, naming
from semel.broker.sign_in import Desk
from semel.cluster.channel import Connect, Ended, Received, Wire, connect
from semel.errors import (
    JournalFull,
    NotController,
    NotLeaderOrFollower,
    RequestError,
)
from semel.lane.users import AlterUser
from semel.world import Clock

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.server import Server

LOOK_S: Final = 0.25
"""A user who was deleted is heard of no later…"""
LOOKS_A_CERTIFICATE: Final = 4
"""…and after so many looks, of files that have changed."""
SALT_SIZE: Final = 16


class ForOthers(NamedTuple):
    """What a node needs to find others, and to be found."""

    told: Sequence[Endpoint]
    """Where its listeners are."""
    name: str
    """Of the one at which other nodes call."""
    connect: Connect


class Listening:
    def __init__(
        self, broker: "Broker", server: "Server", listeners: Sequence[Listener], clock: Clock
    ) -> None:
        """Raises ConfigError."""
        config = listeners[0].config
        self._broker = broker
        self.listeners = listeners
        self._certificates: dict[str, Certificates] = {}
        self._gates: dict[str, Gate] = {}
        self._users = dict(initial_users(config.initial_users))
        self._servers: list[asyncio.Server] = []
        self.addresses: list[Address] = []
        self._for_nodes = next(each.name for each in listeners if each.is_for_nodes)
        self._desk = Desk(broker, server)
        self._reception = Reception(
            config.signin_timeout_ms,
            config.signin_max_connections,
            config.signin_max_connections_per_ip,
        )
        for each in listeners:
            if each.protocol.has_tls:
                self._certificates[each.name] = Certificates(each)
            if not each.is_plain:
                keys = None
                if OAUTHBEARER in each.mechanisms:
                    # Needs a library that others do without.
                    from semel.broker.bearer import Keys

                    keys = Keys(each, clock)
                self._gates[each.name] = Gate(
                    self._desk, self._reception, each, self._certificates.get(each.name), keys
                )

    def _protocol(self, listener: Listener) -> Callable[[], asyncio.BaseProtocol]:
        gate = self._gates.get(listener.name)
        return partial(self._broker.connection, listener.name) if gate is None else gate.protocol

    async def begin(self, sockets: Sequence[socket.socket] | None) -> None:
        """`sockets` are there already where another process holds them. Raises CannotListen."""
        loop = asyncio.get_running_loop()
        for index, each in enumerate(self.listeners):
            protocol = self._protocol(each)
            with naming(written((each.host, each.port))):
                if sockets is None:
                    server = await loop.create_server(
                        protocol, each.host, each.port, backlog=BACKLOG, reuse_address=True
                    )
                else:
                    server = await loop.create_server(
                        protocol, sock=sockets[index], backlog=BACKLOG
                    )
            self._servers.append(server)
            host, port = server.sockets[0].getsockname()[:2]
            self.addresses.append((host, port))

    def close(self) -> None:
        # Not waited for: since Python 3.12 that would be until the last client has gone.
        for each in self._servers:
            each.close()
        self._reception.end_all()

    @property
    def for_others(self) -> ForOthers:
        told = [
            Endpoint(listener.name, *(listener.advertised or address))
            for listener, address in zip(self.listeners, self.addresses, strict=True)
        ]
        return ForOthers(told, self._for_nodes, self._connect)

    async def _connect(self, host: str, port: int, received: Received, ended: Ended) -> Wire:
        """To another node, whose listener is as ours."""
        certificates = self._certificates.get(self._for_nodes)
        tls = None if certificates is None else certificates.for_nodes
        return await connect(host, port, received, ended, tls)

    @property
    def is_watched(self) -> bool:
        return bool(self._gates or self._users)

    def reload(self) -> None:
        """Somebody has asked for it."""
        for each in self._certificates.values():
            each.look(was_asked=True)

    async def watch(self) -> None:
        """Until it is cancelled."""
        look = 0
        while True:
            self._make_users()
            self._desk.end_sessions_of_deleted()
            if look % LOOKS_A_CERTIFICATE == 0:
                for each in self._certificates.values():
                    each.look()
            look += 1
            await asyncio.sleep(LOOK_S)

    def _make_users(self) -> None:
        """Each once, as soon as it is for this broker to do: before anybody can sign in."""
        lanes = self._broker.lanes
        while self._users and lanes.leads_catalogue:
            name, password = next(iter(self._users.items()))
            try:
                if not lanes.controller.view.access.users.of(name):
                    made = tuple(
                        credential(mechanism, password, self._broker.random_bytes(SALT_SIZE))
                        for mechanism in Mechanism
                    )
                    lanes.controller.submit(AlterUser(name, made, ()))
                    self._broker.users_changed(name)
                    log.info("a user was made", user=name)
            except (JournalFull, NotController, NotLeaderOrFollower):
                return  # It is tried again at the next look.
            except RequestError as error:
                log.error("a user of initial.users cannot be made", user=name, reason=str(error))
            del self._users[name]
