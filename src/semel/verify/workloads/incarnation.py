"""One incarnation of a transactional id: its connections, its epoch, and the words of a dialect.

A request is sent again on another connection until it is answered; what was sent before may still
arrive. Requests to the coordinator and to partitions may go over one connection or over two; where
a node leads several lanes they share them.
"""

from typing import Any, NamedTuple

from semel.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    OperationNotAttempted,
    ProducerFenced,
    StorageError,
    TransactionAbortable,
    UnknownProducerId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from semel.types import TopicPartition
from semel.verify.history import EpochGiven, Refusal, Unwelcome
from semel.verify.workloads.client import Client, Connection, Elsewhere, Lost, Reply
from semel.verify.world.network import About, OfId
from semel.wire.messages import add_partitions_to_txn, end_txn, init_producer_id, produce

FENCED = {InvalidProducerEpoch.code, ProducerFenced.code}
FULL = {CoordinatorNotAvailable.code, StorageError.code}
AGAIN = FULL | {ConcurrentTransactions.code, UnstableOffsetCommit.code}
"""The last one of these is not over in other lanes, or something is amiss for a while."""
MISSING = (UnknownTopicOrPartition.code, OperationNotAttempted.code)
"""A partition was deleted, and so nothing was added."""
NAMED_SINCE = 3


class Versions(NamedTuple):
    least: int
    most: int


ANY = Versions(0, 2**15 - 1)


class DialectVersions(NamedTuple):
    """The versions of a dialect, and how it is told that a transaction can only be aborted."""

    name: str
    produce: Versions
    commit_offsets: Versions
    end: Versions
    abortable: int


TV1 = DialectVersions(
    "TV1", Versions(3, 11), Versions(0, 4), Versions(0, 4), UnknownProducerId.code
)
TV2 = DialectVersions(
    "TV2", Versions(12, 12), Versions(5, 5), Versions(5, 5), TransactionAbortable.code
)


class Fatal(Exception):
    """This incarnation is over; the client may start another."""


class Incarnation:
    """What transactional clients have in common."""

    def __init__(
        self,
        client: Client,
        name: str,
        transactional_id: str,
        dialect: DialectVersions,
        timeout_ms: int,
    ) -> None:
        self._client = client
        self._rng = client.rng
        self.name = name
        self.transactional_id = transactional_id
        self.dialect = dialect
        self._timeout_ms = timeout_ms
        self._has_one_connection = self._rng.random() < 0.4
        self._connections: list[tuple[bool, Connection]] = []
        """With whether it is for partitions."""
        self._chosen: dict[tuple[bool, int], Connection] = {}
        """By that and by lane."""
        self.patience_s = self._rng.choice((0.03, 0.2, 1.0))
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[TopicPartition, int] = {}

    @property
    def coordinator(self) -> OfId:
        return OfId(self.transactional_id)

    @property
    def is_tv1(self) -> bool:
        return self.dialect is TV1

    # Connections

    async def connection(self, about: About) -> Connection:
        await self._client.breathe()
        is_for_data, lane = self._use(about)
        connection = self._chosen.get((is_for_data, lane))
        if connection is None or not connection.is_open:
            connection = await self._connected(is_for_data, about)
            self._chosen[is_for_data, lane] = connection
            await self._client.breathe()
        return connection

    def _use(self, about: About) -> tuple[bool, int]:
        is_for_data = self._has_one_connection or isinstance(about, TopicPartition)
        return is_for_data, self._client.surroundings.hosts.lane_of(about)

    async def _connected(self, is_for_data: bool, about: About) -> Connection:
        """Clients have one connection to a node, or two."""
        while True:
            host = self._client.choose(about)
            self._connections = [each for each in self._connections if each[1].is_open]
            for is_so, connection in self._connections:
                if is_so == is_for_data and connection.host is host:
                    return connection
            try:
                # Who has heard nothing on this connection may be overtaken by what it sent on the
                # one before: TV1 has no other way to tell a late request from a new one.
                connection = await self._client.connect_to(host, about, awaits_versions=True)
            except Lost:
                await self._client.back_off()
            else:
                self._connections.append((is_for_data, connection))
                return connection

    def lost(self, about: About, connection: Connection, why: Lost) -> None:
        """Another has to be asked about this."""
        self._chosen.pop(self._use(about), None)
        if not isinstance(why, Elsewhere):
            connection.drop()

    def drop(self) -> None:
        for _, connection in self._connections:
            connection.drop()

    async def ask(
        self,
        about: About,
        messages: Any,
        request: Any,
        versions: Versions = ANY,
        tries: int = 10**6,
    ) -> Reply | None:
        """The answer to one of `tries` times the same request; None if there was none."""
        for _ in range(tries):
            connection = await self.connection(about)
            try:
                return await connection.ask(
                    messages,
                    request,
                    version_min=versions.least,
                    version_max=versions.most,
                    patience_s=self.patience_s,
                )
            except Lost as why:
                self.lost(about, connection, why)
                await self._tire()
        return None

    async def _tire(self) -> None:
        """Who is impatient with a slow disk for ever would never be served."""
        self.patience_s = min(1.0, self.patience_s * 1.5)
        await self._client.back_off()

    async def insist(
        self, about: About, messages: Any, request: Any, versions: Versions = ANY
    ) -> Reply:
        """The answer, if that is not to come again."""
        while True:
            reply = await self.ask(about, messages, request, versions)
            assert reply is not None
            if code_of(reply.message) not in AGAIN:
                return reply
            await self._client.back_off()

    # Identity

    async def initialise(self, *, named: bool = False) -> None:
        """A new incarnation, or the next epoch of this one."""
        identity = (self.producer_id, self.producer_epoch) if named else (-1, -1)
        request = init_producer_id.InitProducerIdRequest(
            self.transactional_id, self._timeout_ms, *identity
        )
        versions = ANY._replace(least=NAMED_SINCE) if named else ANY
        reply = await self.insist(self.coordinator, init_producer_id, request, versions)
        answer: init_producer_id.InitProducerIdResponse = reply.message
        if answer.error_code:
            if not named or answer.error_code not in FENCED:
                self.complain("-", "InitProducerId", answer.error_code)
            raise Fatal
        self.adopt(reply, is_new_incarnation=not named)

    def adopt(self, reply: Reply, *, is_new_incarnation: bool = False) -> None:
        given = (reply.message.producer_id, reply.message.producer_epoch)
        if given != (self.producer_id, self.producer_epoch):
            self.sequences = {}
            self._client.history.note(
                EpochGiven(reply.span, self.transactional_id, self.name, *given, is_new_incarnation)
            )
        self.producer_id, self.producer_epoch = given

    # Requests

    async def add(self, attempt: str, partitions: list[TopicPartition]) -> int:
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        messages = add_partitions_to_txn
        request = messages.AddPartitionsToTxnRequest(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            [messages.AddPartitionsToTxnTopic(*each) for each in by_topic.items()],
        )
        reply = await self.insist(self.coordinator, messages, request)
        code = code_of(reply.message)
        self.expect(attempt, "AddPartitionsToTxn", code, *MISSING)
        return code

    def end_request(self, *, commit: bool) -> end_txn.EndTxnRequest:
        return end_txn.EndTxnRequest(
            self.transactional_id, self.producer_id, self.producer_epoch, commit
        )

    def expect(self, attempt: str, request: str, code: int, *others: int) -> None:
        """Note a refusal, and if it is not among those that may come at any time, complain."""
        if code:
            self._client.history.note(Refusal(attempt, request, code))
        known = {0, self.dialect.abortable, *FENCED, *FULL, *others}
        if code not in known:
            self.complain(attempt, request, code)

    def complain(self, attempt: str, request: str, code: int) -> None:
        self._client.history.note(Unwelcome(attempt, self.dialect.name, request, code))


def code_of(message: Any) -> int:
    """The first error in a response, at whatever depth this API has it."""
    if isinstance(message, produce.ProduceResponse):
        codes = [
            part.error_code for topic in message.responses for part in topic.partition_responses
        ]
    elif isinstance(message, add_partitions_to_txn.AddPartitionsToTxnResponse):
        codes = [
            part.partition_error_code
            for topic in message.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        ]
    elif hasattr(message, "topics"):
        codes = [part.error_code for topic in message.topics for part in topic.partitions]
    else:
        codes = [message.error_code]
    return next((code for code in codes if code), 0)
