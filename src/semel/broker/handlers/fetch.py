"""Fetch (api key 1), versions 4-18.

v4   read_committed; v5  log start offset; v7  sessions; v9  the client's leader epoch
v12  flexible encoding
v13  topics by id (KIP-516): one that was deleted is not taken for another of its name
v14  records that lie in another tier, which none do; v15, v17, v18  more about followers
v16  who knows an older leadership, or asks a node that does not lead, is told who does (KIP-951)

Answered from the durable state alone, so it waits for no sync: the high watermark is the durable
end. If there is less than the client wants, the answer waits until a partition has grown or the
client's patience is over. Every fetch is a full one: session 0 is what a broker answers that
keeps no sessions, and clients go on with full fetches.

Where a leader before may have shown more of what is committed than is known here yet (rule 30),
read_committed waits, and is told in the end that this is not the leader yet: that is what all
clients ask again upon.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.broker.asked_topics import topic_with_id
from semel.errors import (
    NONE,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RequestError,
    StorageError,
    TopicAuthorizationFailed,
)
from semel.lane.lane import Lane, Mark
from semel.lane.leader import LedBy
from semel.lane.partition_log import Damage, Found, Stored, Wanted
from semel.lane.view import PartitionView, TopicView
from semel.types import Offset
from semel.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from semel.wire.rights import READ_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker

READ_COMMITTED: Final = 1
IDS_SINCE: Final = 13
LEADERS_SINCE: Final = 16
UNLED_S_MAX: Final = 1.0
UNKNOWN: Final = -1
NO_LEADER_EPOCH: Final = -1
"""Of a client that does not say which leadership it knows."""


def fetch(broker: "Broker", request: FetchRequest, call: Call) -> Handled:
    if request.session_id != 0:
        return Answer(FetchResponse(error_code=FetchSessionIdNotFound.code), NO_MARKS)
    look = _Look(broker, request, call)
    if not look.find_now():
        return _wait(broker, request, call)
    if look.is_enough or request.max_wait_ms <= 0:
        return look.answer_now() or look.answer()
    return _wait(broker, request, call)


async def _wait(broker: "Broker", request: FetchRequest, call: Call) -> Answer:
    loop = asyncio.get_running_loop()
    wait_ms = min(request.max_wait_ms, broker.config.fetch_max_wait_ms)
    deadline = loop.time() + wait_ms / 1000
    grown = asyncio.Event()
    has_waited = False
    watched = _partitions(broker, request, call)
    for lane, partition in watched:
        lane.watch(partition, grown.set)
    try:
        while True:
            # Look again before waiting: a partition may have grown since the first look.
            grown.clear()
            look = _Look(broker, request, call)
            if not look.find_now():
                await look.find()
            if look.is_elsewhere and not broker.elsewhere.is_known and not has_waited:
                # The lane has left meanwhile, and who comes back at once could not be told more.
                has_waited = True
                await broker.elsewhere.until_known(UNLED_S_MAX)
                continue
            if look.is_enough or loop.time() >= deadline:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await grown.wait()
    finally:
        for lane, partition in watched:
            lane.unwatch(partition, grown.set)
    return look.answer_now() or await look.answer()


def _partitions(
    broker: "Broker", request: FetchRequest, call: Call
) -> list[tuple[Lane, PartitionView]]:
    found = []
    for asked in request.topics:
        for wanted in asked.partitions:
            with contextlib.suppress(RequestError):
                topic = _topic(broker, asked, call)
                found.append(broker.lanes.hosted(topic, wanted.partition))
    return found


def _topic(broker: "Broker", asked: FetchTopic, call: Call) -> TopicView:
    if call.version >= IDS_SINCE:
        return topic_with_id(broker, asked.topic_id, READ_TOPIC, call)
    if not call.is_unrestricted:
        call.require(READ_TOPIC, asked.topic)
    return broker.lanes.topic_named(asked.topic)


class _Share:
    """What is asked of one lane."""

    __slots__ = ("data", "found", "wanted")

    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        self.data: list[PartitionData] = []
        """For each that is wanted, without records yet."""
        self.found: Found | None = None
        """What there is, until it is given."""


class _Look:
    """What is asked for as it stands now, and what is answered."""

    __slots__ = (
        "_broker",
        "_call",
        "_endpoints",
        "_is_committed",
        "_is_cut",
        "_is_refused",
        "_names",
        "_responses",
        "_room",
        "_shares",
        "_size",
        "_size_min",
        "is_elsewhere",
    )

    def __init__(self, broker: "Broker", request: FetchRequest, call: Call) -> None:
        self._broker = broker
        self._call = call
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._is_refused = False
        self.is_elsewhere = False
        """Some of it is led by others, which is true whatever becomes of this node's journal."""
        self._is_cut = False
        size_max, size_min = request.max_bytes, request.min_bytes
        if size_max > broker.config.fetch_max_bytes:  # noqa: PLR1730 - a call less for each look.
            size_max = broker.config.fetch_max_bytes
        if size_min > size_max:  # noqa: PLR1730 - a call less for each look.
            size_min = size_max
        self._size_min = size_min
        self._room = broker.reply_room_bytes
        if self._room > size_max:  # noqa: PLR1730 - a call less for each look.
            self._room = size_max
        self._shares: dict[Lane, _Share] = {}
        self._size = 0
        self._responses: list[FetchableTopicResponse] = []
        self._names: list[str] = []
        """Of the topics of the same; empty where there is none."""
        self._endpoints: list[NodeEndpoint] = []
        for asked in request.topics:
            found: TopicView | RequestError
            try:
                found = _topic(broker, asked, call)
                name = found.name
            except RequestError as error:
                found, name = error, ""
            partitions: list[PartitionData] = []
            for wanted in asked.partitions:
                partitions.append(self._partition(found, wanted))  # noqa: PERF401 - a call less.
            self._responses.append(FetchableTopicResponse(asked.topic, partitions, asked.topic_id))
            self._names.append(name)

    def _partition(self, topic: TopicView | RequestError, wanted: FetchPartition) -> PartitionData:
        try:
            if isinstance(topic, RequestError):
                raise topic
            lane, partition = self._broker.lanes.hosted(topic, wanted.partition)
            view = lane.view
            if wanted.current_leader_epoch != NO_LEADER_EPOCH:
                view.check_leader_epoch(wanted.current_leader_epoch)
            if not partition.log_start_offset <= wanted.fetch_offset <= partition.log_end_offset:
                raise OffsetOutOfRange
            knows_end = view.knows_stable_end(partition.topic_partition)
            if self._is_committed and not knows_end:
                # Not `is_elsewhere`: it may be known before the client's patience is over.
                code = NotLeaderOrFollower.code
                return PartitionData(wanted.partition, code, -1, records=b"")
        except FencedLeaderEpoch as error:
            self._is_refused = True
            refused = PartitionData(wanted.partition, error.code, -1, records=b"")
            if self._call.version >= LEADERS_SINCE:
                host, port = self._broker.nodes.address_for(self._call)
                own = LedBy(view.epoch, self._broker.config.node_id, host, port)
                refused.current_leader = self._leader(own)
            return refused
        except NotLeaderOrFollower as error:
            self.is_elsewhere = True
            refused = PartitionData(wanted.partition, error.code, -1, records=b"")
            if self._call.version >= LEADERS_SINCE:
                led_by = self._leader_of(topic, wanted.partition)
                if led_by is not None:
                    refused.current_leader = self._leader(led_by)
            return refused
        except RequestError as error:
            self._is_refused = True
            return PartitionData(wanted.partition, error.code, -1, records=b"")
        high_watermark = partition.high_watermark
        last_stable_offset = partition.last_stable_offset
        data = PartitionData(
            wanted.partition,
            NONE,
            high_watermark,
            last_stable_offset if knows_end else UNKNOWN,
            partition.log_start_offset,
            aborted_transactions=[] if self._is_committed else None,
            records=b"",
        )
        bound = last_stable_offset if self._is_committed else high_watermark
        if wanted.fetch_offset < bound:
            share = self._shares.get(lane)
            if share is None:
                share = self._shares[lane] = _Share()
            offset = Offset(wanted.fetch_offset)
            share.wanted.append(Wanted(partition, offset, bound, wanted.partition_max_bytes))
            share.data.append(data)
        return data

    def _leader_of(self, topic: TopicView | RequestError, index: int) -> LedBy | None:
        name = "" if isinstance(topic, RequestError) else topic.name
        lane = self._broker.lanes.number_of(name, index)
        return None if lane is None else self._broker.nodes.leader_of(lane, self._call)

    def _leader(self, led_by: LedBy) -> LeaderIdAndEpoch:
        if all(endpoint.node_id != led_by.node_id for endpoint in self._endpoints):
            self._endpoints.append(NodeEndpoint(led_by.node_id, led_by.host, led_by.port))
        return LeaderIdAndEpoch(led_by.node_id, led_by.epoch)

    # What there is

    def find_now(self) -> bool:
        """False if the disk has to be waited for."""
        for lane, share in self._shares.items():
            found = lane.log.find_now(share.wanted, self._room - self._size)
            if found is None:
                return False
            self._keep(share, found)
        return True

    async def find(self) -> None:
        """What `find_now` has not found."""
        for lane, share in self._shares.items():
            if share.found is None:
                self._keep(share, await lane.log.find(share.wanted, self._room - self._size))

    def _keep(self, share: _Share, found: Found) -> None:
        share.found = found
        self._size += found.size
        if found.is_cut:
            self._is_cut = True
        if found.damage:
            self._is_refused = True

    @property
    def is_enough(self) -> bool:
        """By sizes alone: nothing is read before it is worth an answer."""
        return self._is_refused or self.is_elsewhere or self._is_cut or self._size >= self._size_min

    # Answering

    def answer_now(self) -> Answer | None:
        """None if the disk has to be waited for."""
        for lane, share in self._shares.items():
            found = share.found
            assert found is not None
            stored = lane.log.read_now(found, with_aborted=self._is_committed)
            if stored is None:
                return None
            self._give_all(lane, share, found, stored)
        return self._answer()

    async def answer(self) -> Answer:
        for lane, share in self._shares.items():
            found = share.found
            if found is not None:
                stored = await lane.log.read(found, with_aborted=self._is_committed)
                self._give_all(lane, share, found, stored)
        return self._answer()

    def _answer(self) -> Answer:
        if not self._call.is_unrestricted:
            self._take_back()
        self._broker.metrics.bytes_out += self._size
        # Records come from the durable state. A refusal may come from what is not yet durable,
        # such as the deletion of a topic, and then waits for that; so does a log that now begins
        # later.
        marks: tuple[Mark, ...] | None = None if self._is_refused else NO_MARKS
        for lane in self._broker.lanes.led:
            if not lane.are_log_starts_durable:
                marks = None
        response = FetchResponse(responses=self._responses, node_endpoints=self._endpoints)
        return Answer(response, marks)

    def _take_back(self) -> None:
        """What the client may no longer read, since it was looked for."""
        for name, response in zip(self._names, self._responses, strict=True):
            if name and not self._call.may(READ_TOPIC, name):
                for data in response.partitions:
                    data.records = b""
                    self._refuse(data, TopicAuthorizationFailed.code)

    def _give_all(
        self, lane: Lane, share: _Share, found: Found, stored: list[Stored | Damage]
    ) -> None:
        share.found = None
        for number, its in enumerate(stored):
            if not lane.is_leading:
                self.is_elsewhere = True
                self._empty(share.data[number], NotLeaderOrFollower.code)
            elif isinstance(its, Stored):
                self._give(share.data[number], its)
                if its.batches:
                    topic = share.wanted[number].partition.topic_partition.topic
                    counts = self._broker.metrics.of_topic(topic)
                    counts.bytes_out += found.sizes[number]
            else:
                # The reader's other partitions may be whole: only this one cannot be read.
                partition = share.wanted[number].partition.topic_partition
                self._broker.found_unreadable(partition, its)
                self._refuse(share.data[number], StorageError.code)

    def _give(self, data: PartitionData, stored: Stored) -> None:
        if stored.batches:
            data.records = stored.batches
        if self._is_committed:
            data.aborted_transactions = [
                AbortedTransaction(each.producer_id, each.first_offset) for each in stored.aborted
            ]

    def _refuse(self, data: PartitionData, error_code: int) -> None:
        self._is_refused = True
        self._empty(data, error_code)

    @staticmethod
    def _empty(data: PartitionData, error_code: int) -> None:
        data.error_code = error_code
        data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        data.aborted_transactions = None
