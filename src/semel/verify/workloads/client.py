"""A simulated client and its connections: requests out in order, replies back in the same order."""

import asyncio
from collections import deque
from random import Random
from typing import Any, NamedTuple

from semel.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    NotController,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    StorageError,
)
from semel.verify.history import History, Span, TermSeen
from semel.verify.world.loop import Process
from semel.verify.world.network import About, Host, Hosts, Loss, Network, Wire
from semel.wire import apis
from semel.wire.framing import FrameCutter, frame
from semel.wire.headers import RequestHeader, decode_response_header, encode_request_header
from semel.wire.messages import api_versions, metadata

REPLY_SIZE_MAX = 2**26
PATIENCE_S = 1.0
LEADER_EPOCH_SINCE = 7
VERSION_MAX = 2**15 - 1
NAMES_UNTIL = {0: 12, 1: 12, 8: 9, 9: 9}
"""Newer versions of these know topics by their ids alone, and workloads by their names."""
BACKOFF_S_MAX = 0.1
ZOMBIE_SHARE = 0.15
"""Of those who do not seek them."""
ELSEWHERE = frozenset(
    error.code
    for error in (
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        LeaderNotAvailable,
        NotController,
        NotCoordinator,
        NotLeaderOrFollower,
        RequestTimedOut,
        StorageError,
    )
)
"""Whoever hears one of these asks another node, or the same one later."""


class Lost(Exception):
    """The connection is gone, or its client has lost patience with it."""


class Elsewhere(Lost):
    """Others have to be asked, and the connection is there still."""


class Reply(NamedTuple):
    span: Span
    message: Any
    version: int


class _Awaited(NamedTuple):
    api: apis.Api
    version: int
    correlation_id: int
    began_s: float
    future: "asyncio.Future[Reply]"


class Surroundings(NamedTuple):
    """What every simulated client is given."""

    network: Network
    hosts: Hosts
    history: History


class Connection:
    """Open it, `send` or `ask`, and `drop` it: nothing is left to the garbage collector."""

    def __init__(
        self,
        surroundings: Surroundings,
        client: Process,
        rng: Random,
        host: Host,
        patience_s: float = PATIENCE_S,
        about: About = None,
    ) -> None:
        self._patience_s = patience_s
        self.host = host
        self._about = about
        self.lane = surroundings.hosts.lane_of(about)
        """Which it is used for; of several, if other lanes are led there as well."""
        self._surroundings = surroundings
        self._client = client
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._cutter = FrameCutter(REPLY_SIZE_MAX)
        self._awaited: deque[_Awaited] = deque()
        self._last_correlation_id = 0
        self._versions: dict[int, int] = {}
        self.request_count = 0
        self.term = -1
        """The leader epoch, if it is known; it is the same for the whole connection."""

    async def open(self, *, awaits_versions: bool) -> None:
        try:
            self._wire = self._surroundings.network.connect(
                self._client, self.host, self._receive, self._lost
            )
        except ConnectionRefusedError as error:
            raise Lost from error
        # These answers wait for the journal; who asks each time never meets one that lags behind.
        if awaits_versions or self._rng.random() < 0.4:
            await self.ask(api_versions, api_versions.ApiVersionsRequest("semel-verify", "0"))
        # A node of several may lead again, in another term, before a connection to it ends.
        if self.host.node_id is None and self._rng.random() < 0.4:
            await self._learn_term()

    async def _learn_term(self) -> None:
        request = metadata.MetadataRequest(None, allow_auto_topic_creation=False)
        reply = await self.ask(metadata, request, version_min=LEADER_EPOCH_SINCE)
        for topic in reply.message.topics:
            self.term = topic.partitions[0].leader_epoch
        if self.term >= 0:
            self._surroundings.history.note(TermSeen(reply.span, self.term))

    @property
    def is_open(self) -> bool:
        return self._wire is not None

    def send(
        self,
        messages: Any,
        message: Any,
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        has_reply: bool = True,
    ) -> "asyncio.Future[Reply]":
        """The reply to come; it may be Lost instead."""
        if self._wire is None:
            raise Lost
        api = apis.BY_KEY[messages.API_KEY]
        version = self._version(api, version_min, version_max)
        self._last_correlation_id += 1
        self.request_count += 1
        header = RequestHeader(api, version, self._last_correlation_id, self._client.name)
        parts = frame(encode_request_header(header), messages.encode_request(message, version))
        future: asyncio.Future[Reply] = self._loop.create_future()
        if has_reply:
            self._awaited.append(
                _Awaited(api, version, self._last_correlation_id, self._loop.time(), future)
            )
            # Not every reply is waited for; that it was lost is no error then.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._wire.to_broker.write(b"".join(parts))
        return future

    async def ask(
        self,
        messages: Any,
        message: Any,
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        patience_s: float | None = None,
    ) -> Reply:
        coming = self.send(messages, message, version_min=version_min, version_max=version_max)
        return await self.wait(coming, patience_s)

    async def wait(self, future: "asyncio.Future[Reply]", patience_s: float | None = None) -> Reply:
        try:
            async with asyncio.timeout(self._patience_s if patience_s is None else patience_s):
                return await future
        except TimeoutError:
            self.drop()
            raise Lost from None

    def drop(self) -> None:
        """Give up; what was sent may arrive all the same."""
        wire, self._wire = self._wire, None
        if wire is not None:
            loss = self._rng.choice((Loss.RESET, Loss.LATE, Loss.LATE))
            self._surroundings.network.lose(wire, loss)
            self._forget()

    def _version(self, api: apis.Api, version_min: int, version_max: int) -> int:
        least = max(api.version_min, version_min)
        most = min(api.version_max, version_max, NAMES_UNTIL.get(api.key, VERSION_MAX))
        version = self._versions.get(api.key)
        if version is None or not least <= version <= most:
            version = self._versions[api.key] = self._rng.randint(least, most)
        return version

    def _receive(self, content: bytes) -> None:
        if self._wire is None:
            return
        for reply in self._cutter.feed(content):
            awaited = self._awaited.popleft()
            correlation_id, position = decode_response_header(
                reply, 0, awaited.api, awaited.version
            )
            assert correlation_id == awaited.correlation_id, "replies are out of order"
            message, _ = awaited.api.decode_response(reply, position, awaited.version)
            if self.host.node_id is not None and self._is_led_elsewhere(message):
                if self._surroundings.hosts.lane_count > 1:
                    # It may lead other lanes.
                    if not awaited.future.done():
                        awaited.future.set_exception(Elsewhere())
                    continue
                self._awaited.appendleft(awaited)
                self.drop()
                return
            if not awaited.future.done():
                span = Span(awaited.began_s, self._loop.time())
                awaited.future.set_result(Reply(span, message, awaited.version))

    def _is_led_elsewhere(self, message: Any) -> bool:
        """Whether the node says that others have to be asked."""
        if isinstance(message, metadata.MetadataResponse):
            # What one who stands by knows of topics may be old, and nobody is misled by it.
            return self._about is None and message.controller_id != self.host.node_id
        return _has_code(message)

    @property
    def epoch(self) -> int:
        """In which the node leads the lane that it is asked of, at this moment."""
        return self.host.epoch_of(self.lane)

    def _lost(self) -> None:
        self._wire = None
        self._forget()

    def _forget(self) -> None:
        while self._awaited:
            future = self._awaited.popleft().future
            if not future.done():
                future.set_exception(Lost())


def _has_code(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_code, value))
    fields = getattr(value, "__struct_fields__", ())
    for name in fields:
        found = getattr(value, name)
        if name.endswith("error_code"):
            if found in ELSEWHERE:
                return True
        elif isinstance(found, list) and _has_code(found):
            return True
    return False


class Client:
    """One incarnation: a process with its own randomness and its own patience."""

    def __init__(self, name: str, surroundings: Surroundings, seed: int) -> None:
        self.name = name
        self.surroundings = surroundings
        self.history = surroundings.history
        self.rng = Random(f"client {name} {seed}")
        self.process = Process(name)
        self.request_count = 0
        self.is_replaced = False
        """Another has taken its place, and it does not know."""
        self.asleep_until_s = 0.0
        self.pace = 1.0
        """How many times as long as others it thinks."""
        self.patience_s = PATIENCE_S
        self.zombie_share = ZOMBIE_SHARE

    async def connect(self, about: About = None, *, awaits_versions: bool = False) -> Connection:
        """An open connection, however long that takes; who does not insist on ApiVersions may
        send its first request at once, as clients do that were told the versions before."""
        while True:
            host = self.choose(about)
            try:
                return await self.connect_to(host, about, awaits_versions=awaits_versions)
            except Lost:
                await self.back_off()

    def choose(self, about: About) -> Host:
        """Whom to ask, as far as it has heard."""
        hosts = self.surroundings.hosts
        return hosts.choose(self.rng, self.zombie_share, hosts.lane_of(about))

    async def connect_to(
        self, host: Host, about: About = None, *, awaits_versions: bool = False
    ) -> Connection:
        """Raises Lost."""
        connection = Connection(
            self.surroundings, self.process, self.rng, host, self.patience_s, about
        )
        await connection.open(awaits_versions=awaits_versions)
        return connection

    async def back_off(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.001, BACKOFF_S_MAX))

    async def think(self) -> None:
        """A pause, short more often than not."""
        mean_s = self.rng.choice((0.001, 0.005, 0.05))
        await asyncio.sleep(self.pace * self.rng.expovariate(1 / mean_s))

    async def breathe(self) -> None:
        """A client that was put to sleep goes no further until it wakes up."""
        pause_s = self.asleep_until_s - self.now_s()
        if pause_s > 0:
            await asyncio.sleep(pause_s)

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()
