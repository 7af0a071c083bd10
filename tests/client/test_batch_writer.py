"""What a writer leaves behind when it fails: nothing that could be stored later."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import TypeVar, cast

import pytest

from semel.client.cluster.calls import retrying
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.connection import Messages
from semel.client.connecting.link import Link, Pending
from semel.client.connecting.topic_ids import NO_ID
from semel.client.writing.batch_writer import Delivery, EncodedBatchWriter
from semel.errors import (
    NONE,
    NetworkException,
    NotEnoughReplicas,
    ProducerFenced,
    RequestTimedOut,
)
from semel.records.records import Record, encode_batch
from semel.types import ProducerIdAndEpoch, TopicPartition
from semel.wire.messages import produce
from support.seeded_loop import elapse, run

T = TypeVar("T")

QUICK, SLOW = TopicPartition("t", 1), TopicPartition("t", 2)
TIMEOUT_MS = 30_000
NEVER_S = 10_000.0


class Leader:
    """Answers its requests in order, each some time after it came; each code for one request."""

    def __init__(self, after_s: float, codes: Iterable[int] = ()) -> None:
        self.after_s = after_s
        self.codes = list(codes)
        self.unanswered: list[asyncio.Future[produce.ProduceResponse]] = []
        self.stored: list[tuple[TopicPartition, int]] = []
        self.is_silent_of: TopicPartition | None = None

    def abort(self) -> None:
        for reply in self.unanswered:
            if not reply.done():
                reply.set_exception(NetworkException("aborted"))
        self.unanswered.clear()

    address = "leader"

    def take(self, request: produce.ProduceRequest) -> asyncio.Future[produce.ProduceResponse]:
        reply: asyncio.Future[produce.ProduceResponse] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(lambda reply: reply.cancelled() or reply.exception())
        self.unanswered.append(reply)
        code = self.codes.pop(0) if self.codes else NONE
        asyncio.get_running_loop().call_later(self.after_s, self._answer, reply, request, code)
        return reply

    def _answer(
        self,
        reply: asyncio.Future[produce.ProduceResponse],
        request: produce.ProduceRequest,
        code: int,
    ) -> None:
        if reply not in self.unanswered:
            return
        self.unanswered.remove(reply)
        if not reply.done():
            reply.set_result(
                produce.ProduceResponse(list(map(self._topic, request.topic_data, [code])))
            )

    def _topic(self, topic: produce.TopicProduceData, code: int) -> produce.TopicProduceResponse:
        answers = []
        for each in topic.partition_data:
            place = TopicPartition(topic.name, each.index)
            if place == self.is_silent_of:
                self.is_silent_of = None
                continue
            offset = -1
            if code == NONE:
                offset = len(self.stored)
                self.stored.append((place, offset))
            answers.append(produce.PartitionProduceResponse(each.index, code, offset))
        return produce.TopicProduceResponse(topic.name, answers)


class TwoLeaders:
    """As much of a cluster as a writer needs."""

    timeout_ms = TIMEOUT_MS

    def __init__(self, quick: Leader, slow: Leader) -> None:
        self.leaders = {1: quick, 2: slow}

    @property
    def unanswered_count(self) -> int:
        return sum(len(leader.unanswered) for leader in self.leaders.values())

    async def leaders_and_topic_ids(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, bytes]]:
        return {place: (place.partition, NO_ID) for place in places}

    async def ask(
        self, node_id: int, _: Messages[object, object], request: produce.ProduceRequest
    ) -> Pending[produce.ProduceResponse]:
        leader = self.leaders[node_id]
        return Pending(cast(Link, leader), leader.take(request))

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await retrying(attempt, timeout_ms=self.timeout_ms)


def batches(count: int) -> list[tuple[TopicPartition, bytes]]:
    return [
        (place, encode_batch([Record(None, b"%d" % number, 0)]))
        for number in range(count)
        for place in (QUICK, SLOW)
    ]


async def write(cluster: TwoLeaders, count: int) -> list[Delivery]:
    writer = EncodedBatchWriter(cast(Cluster, cluster), ProducerIdAndEpoch(7, 0), "id")
    return await writer.write(batches(count))


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_refused_write_ends_when_no_request_is_under_way(count: int) -> None:
    async def work() -> None:
        cluster = TwoLeaders(Leader(0.1, [ProducerFenced.code]), Leader(3))
        with pytest.raises(ProducerFenced):
            await write(cluster, count)
        assert cluster.unanswered_count == 0

    run(Random(1), work())


def test_a_write_that_is_given_up_ends_when_no_request_is_under_way() -> None:
    async def work() -> None:
        cluster = TwoLeaders(Leader(1), Leader(3))
        writing = asyncio.get_running_loop().create_task(write(cluster, 9))
        await elapse(2.5)
        assert cluster.unanswered_count > 0
        writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled()
        assert cluster.unanswered_count == 0

    run(Random(1), work())


def test_a_leader_that_does_not_answer_loses_its_link() -> None:
    async def work() -> None:
        cluster = TwoLeaders(Leader(0.1, [ProducerFenced.code]), Leader(NEVER_S))
        with pytest.raises(ProducerFenced):
            await write(cluster, 9)
        assert cluster.unanswered_count == 0
        assert asyncio.get_running_loop().time() < NEVER_S

    run(Random(1), work())


@pytest.mark.parametrize("code", [NotEnoughReplicas.code, RequestTimedOut.code])
def test_what_was_answered_behind_a_passing_refusal_counts_once(code: int) -> None:
    async def work() -> None:
        cluster = TwoLeaders(Leader(0.1, [NONE, code]), Leader(0.5))
        deliveries = await write(cluster, 9)
        assert [each.partition for each in deliveries].count(QUICK) == 9
        assert [each.partition for each in deliveries].count(SLOW) == 9

    run(Random(1), work())


def test_a_reply_that_leaves_out_a_partition_is_asked_for_again() -> None:
    async def work() -> None:
        quick = Leader(0.1)
        quick.is_silent_of = QUICK
        deliveries = await write(TwoLeaders(quick, Leader(0.1)), 2)
        assert sorted(each.partition for each in deliveries) == [QUICK, QUICK, SLOW, SLOW]

    run(Random(1), work())
