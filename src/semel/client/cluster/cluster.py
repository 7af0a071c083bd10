"""A cluster as a client sees it: connections by broker, metadata, leaders and coordinators.

Works against any cluster that speaks Kafka's protocol: each connection uses the highest
version of each API that both sides know.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from semel import __version__
from semel.client.cluster import metadata
from semel.client.cluster.calls import raise_for, retrying
from semel.client.cluster.metadata import NO_NODE, ClusterMetadata, TopicMetadata
from semel.client.connecting.address import Address, hint_at_variable
from semel.client.connecting.connection import Messages
from semel.client.connecting.link import Link, Pending, open_link
from semel.errors import (
    BrokerNotAvailable,
    CoordinatorNotAvailable,
    NetworkException,
    NotController,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from semel.security import PLAINTEXT, Security, tls_context
from semel.topic_names import check_name
from semel.types import TopicPartition
from semel.wire.messages import find_coordinator
from semel.wire.messages import metadata as metadata_messages

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")

# A topic that is being created is unknown for a moment, one that is not stays so.
_CREATION_MS_MAX = 5_000
_NEWS_MS_MAX = 1_000
"""When every broker has heard of a topic that another one has created."""


_HEAD_START_S = 0.25
"""Of one address over the next."""


class CoordinatorOf(enum.IntEnum):
    """What a broker coordinates, numbered as FindCoordinator does."""

    GROUP = 0
    TRANSACTION = 1


class Cluster:
    def __init__(
        self,
        bootstrap_servers: Sequence[Address],
        *,
        client_id: str = "semel",
        timeout_ms: int = 30_000,
        request_timeout_ms: int | None = None,
        connect_timeout_ms: int = 10_000,
        security: Security = PLAINTEXT,
    ) -> None:
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._security = security
        if security.tls is not None:
            tls_context(security.tls)  # Certificates that cannot be read are told of here.
        self._client_id = client_id
        self.timeout_ms = timeout_ms
        """How long passing refusals are retried."""
        self.request_timeout_ms = min(timeout_ms, request_timeout_ms or timeout_ms)
        """How long one request may take: of a node that is frozen no answer comes, and another may
        lead by then."""
        # Such a node takes connections as well.
        self._connect_timeout_ms = min(connect_timeout_ms, self.request_timeout_ms)
        self._links: dict[Address, Link] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._looking = asyncio.Lock()
        self._worked_last: Address | None = None
        self._knew_nobody: Address | None = None
        """Of a broker that could not tell who leads: others are asked first, as it may be cut off
        from all that could tell it."""
        self._addresses: dict[int, Address] = {}
        self._controller_id = NO_NODE
        self._coordinators: dict[tuple[CoordinatorOf, str], int] = {}

    async def __aenter__(self) -> Self:
        await self._any_link()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        links, self._links = self._links, {}
        for link in links.values():
            await link.close()

    async def call_any(self, messages: Messages[_Request, _Reply], request: _Request) -> _Reply:
        link = await self._any_link()
        return await link.call(messages, request, self.request_timeout_ms)

    async def call(
        self, node_id: int, messages: Messages[_Request, _Reply], request: _Request
    ) -> _Reply:
        link = await self._link_to(node_id)
        return await link.call(messages, request, self.request_timeout_ms)

    async def ask(
        self, node_id: int, messages: Messages[_Request, _Reply], request: _Request
    ) -> Pending[_Reply]:
        """Send now; the reply may be waited for later."""
        return await (await self._link_to(node_id)).ask(messages, request, self.request_timeout_ms)

    async def version_of(self, node_id: int, messages: Messages[Any, Any]) -> int:
        """The version of this API that is spoken with this broker."""
        return (await self._link_to(node_id)).version_of(messages)

    async def transaction_version(self) -> int:
        """What the brokers have agreed on; 2 and more give each transaction an epoch."""

        async def attempt() -> int:
            return (await self._any_link()).transaction_version

        return await self.retry(attempt)

    async def tell(
        self, node_id: int, messages: Messages[_Request, Any], request: _Request
    ) -> None:
        """Send a request that gets no reply."""
        link = await self._link_to(node_id)
        await link.tell(messages, request, self.request_timeout_ms)

    async def controller_id(self) -> int:
        if self._controller_id == NO_NODE:
            await self.describe(())
        if self._controller_id == NO_NODE:
            raise NotController("the cluster has no controller at the moment")
        return self._controller_id

    async def describe(
        self, topics: Collection[str] | None = None, *, may_create: bool = False
    ) -> ClusterMetadata:
        """The brokers and these topics (None: all of them), asked anew."""
        request = metadata_messages.MetadataRequest(
            topics=None
            if topics is None
            else [metadata_messages.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=may_create,
        )
        link = await self._any_link()
        reply = await link.call(metadata_messages, request, self.request_timeout_ms)
        described = metadata.from_wire(reply)
        self._heard_from(link, knows=not described.lacks_leader)
        self._addresses = dict(described.brokers)
        self._controller_id = described.controller_id
        return described

    async def topics(self, names: Collection[str]) -> dict[str, TopicMetadata]:
        """These topics; the first one that is missing is refused."""
        described = await self.describe(names)
        return {name: described.topic(name) for name in names}

    async def topic_to_write(
        self, name: str, timeout_ms: int | None = None, *, may_create: bool = True
    ) -> TopicMetadata:
        """This topic, created now if it is missing, may be, and the cluster creates on demand.

        `timeout_ms` is for a cluster that cannot tell; a topic that stays missing has less.
        """
        # A broker says only that it is invalid.
        check_name(name)
        loop = asyncio.get_running_loop()
        refused_from_s: float | None = None

        async def attempt() -> TopicMetadata | UnknownTopicOrPartition:
            nonlocal refused_from_s
            described = await self.describe([name], may_create=may_create)
            try:
                return described.topic(name)
            except UnknownTopicOrPartition as error:
                now_s = loop.time()
                if refused_from_s is None:
                    missing_ms_max = _CREATION_MS_MAX if may_create else _NEWS_MS_MAX
                    refused_from_s = now_s + missing_ms_max / 1000
                if now_s < refused_from_s:
                    raise
                return error

        patience_ms = min(_CREATION_MS_MAX, self.timeout_ms) if timeout_ms is None else timeout_ms
        found = await self.retry(attempt, patience_ms)
        if isinstance(found, UnknownTopicOrPartition):
            raise found
        return found

    async def leaders_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader of each partition."""
        described = await self.describe({partition.topic for partition in partitions})
        return {partition: described.leader_of(partition) for partition in partitions}

    async def leaders_and_topic_ids(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, bytes]]:
        """The leader of each partition, and what tells its topic from another of its name."""
        described = await self.describe({partition.topic for partition in partitions})
        return {
            partition: (described.leader_of(partition), described.topic(partition.topic).topic_id)
            for partition in partitions
        }

    async def existing(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those that are there: what names partitions may outlive their topic."""
        topics = (await self.describe({partition.topic for partition in partitions})).topics
        return [
            partition
            for partition in partitions
            if partition.topic in topics
            and partition.partition < len(topics[partition.topic].partitions)
        ]

    async def coordinator_of(self, key: str, kind: CoordinatorOf = CoordinatorOf.GROUP) -> int:
        """The broker that coordinates this group or transactional id."""
        if (kind, key) not in self._coordinators:
            self._coordinators[kind, key] = await self.retry(lambda: self._find(kind, key))
        return self._coordinators[kind, key]

    async def _find(self, kind: CoordinatorOf, key: str) -> int:
        link = await self._any_link()
        request = find_coordinator.FindCoordinatorRequest(
            key=key, key_type=kind, coordinator_keys=[key]
        )
        reply = await link.call(find_coordinator, request, self.request_timeout_ms)
        # Before version 4 a reply has room for one coordinator only.
        found = reply.coordinators[0] if reply.coordinators else reply
        subject = f"coordinator of {kind.name.lower()} {key}"
        self._heard_from(link, knows=found.error_code != CoordinatorNotAvailable.code)
        raise_for(found.error_code, subject, found.error_message)
        self._addresses[found.node_id] = Address(found.host, found.port)
        return found.node_id

    def forget_coordinator(self, group: str) -> None:
        """It is asked for anew at the next call: the one that is known is so no longer."""
        self._coordinators.pop((CoordinatorOf.GROUP, group), None)

    def learn_brokers(self, brokers: Mapping[int, Address]) -> None:
        """What another connection to the same cluster has been told."""
        self._addresses.update(brokers)

    async def call_coordinator(
        self,
        key: str,
        messages: Messages[_Request, _Reply],
        request: _Request,
        kind: CoordinatorOf = CoordinatorOf.GROUP,
    ) -> _Reply:
        return await self.call(await self.coordinator_of(key, kind), messages, request)

    async def retry(
        self, attempt: Callable[[], Awaitable[_Reply]], timeout_ms: int | None = None
    ) -> _Reply:
        """Attempt until it is done or refused for good, asking anew who is responsible."""
        return await retrying(
            attempt,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            between=self._relearn,
        )

    async def _relearn(self) -> None:
        """Forget who was responsible for what: the refusal says that it has changed."""
        self._coordinators.clear()
        self._controller_id = NO_NODE
        await self.describe(())

    async def _link_to(self, node_id: int) -> Link:
        if node_id not in self._addresses:
            await self.describe(())
        if node_id not in self._addresses:
            raise BrokerNotAvailable(f"broker {node_id} is not in the cluster at the moment")
        return await self._link_at(self._addresses[node_id])

    async def _any_link(self) -> Link:
        if (link := self._open_link()) is not None:
            return link
        # One at a time, so that a server that never answers is waited for once and not by each.
        async with self._looking:
            if (link := self._open_link()) is not None:
                return link
            known = [*self._bootstrap_servers, *self._addresses.values()]
            if self._worked_last is not None:
                known.insert(0, self._worked_last)
            last = self._knew_nobody
            order = dict.fromkeys(each for each in known if each != last)
            return await self._first_link(order if last is None else {**order, last: None})

    def _heard_from(self, link: Link, *, knows: bool) -> None:
        if not knows:
            self._knew_nobody = link.address
        elif self._knew_nobody == link.address:
            self._knew_nobody = None

    def _open_link(self) -> Link | None:
        """The one on which the fewest replies are awaited: none may ever come of a frozen node."""
        links = [
            link
            for link in self._links.values()
            if link.is_open and link.address != self._knew_nobody
        ]
        return min(links, key=lambda link: link.awaited_count, default=None)

    async def _first_link(self, addresses: Iterable[Address]) -> Link:
        """One after the other, but none is waited for alone: another is tried beside it."""
        left = list(addresses)
        reasons = dict.fromkeys(left, "")
        found: Link | None = None
        unexpected: Exception | None = None
        async with asyncio.TaskGroup() as tasks:
            trying: set[asyncio.Task[tuple[Address, Link | Exception]]] = set()
            while found is None and unexpected is None and (left or trying):
                if left:
                    trying.add(tasks.create_task(self._try_link_at(left.pop(0))))
                done, trying = await asyncio.wait(
                    trying,
                    timeout=_HEAD_START_S if left else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for address, outcome in (task.result() for task in done):
                    if isinstance(outcome, Link):
                        found = outcome
                    elif isinstance(outcome, NetworkException | RequestTimedOut):
                        reasons[address] = str(outcome)
                    else:
                        unexpected = outcome
            for task in trying:
                task.cancel()
        if found is not None:
            self._worked_last = found.address
            return found
        if unexpected is not None:
            raise unexpected
        raise NetworkException(
            "; ".join(reasons.values()) + hint_at_variable(self._bootstrap_servers)
        )

    async def _try_link_at(self, address: Address) -> tuple[Address, Link | Exception]:
        try:
            return address, await self._link_at(address)
        except Exception as error:  # noqa: BLE001 - judged by whoever tries others as well.
            return address, error

    async def _link_at(self, address: Address) -> Link:
        async with self._opening.setdefault(address, asyncio.Lock()):
            link = self._links.get(address)
            if link is None or not link.is_open:
                link = await open_link(
                    address,
                    self._client_id,
                    __version__,
                    self._connect_timeout_ms,
                    self._security,
                )
                self._links[address] = link
            return link
