"""Two workers in one process: what one is told of the other's topics and settings, and when."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

from semel.broker.broker import Broker, Storage, Workers
from semel.broker.config import BrokerConfig
from semel.broker.neighbour import Neighbour
from semel.broker.worker import Worker
from semel.cluster import messages
from semel.cluster.channel import NodeAway
from semel.cluster.keys import OnlyKey
from semel.cluster.messages import AnyAnswer, AnyRequest
from semel.errors import (
    NONE,
    NotController,
    NotLeaderOrFollower,
    RequestTimedOut,
    TopicAlreadyExists,
)
from semel.journal.file.memory import MemoryDevice
from semel.records.records import Record, encode_batch
from semel.types import OFFSETS_TOPIC
from semel.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.handled import CONFIG, LoopClock, SeededRandomness, call, started
from support.seeded_loop import elapse, run

COUNT = 2
KEY = OnlyKey(b"k" * 32)
BATCH = encode_batch([Record(b"k", b"v", 1_000)])
LEADERS = [Neighbour(1 + index, "127.0.0.1", 9092 + index) for index in range(COUNT)]
BROKER_SETTINGS = 4


class Machine:
    """Its workers are killed and frozen one by one."""

    def __init__(self, config: BrokerConfig = CONFIG) -> None:
        self._config = config
        self._rng = Random(1)
        self.devices = [MemoryDevice(Random(number)) for number in range(COUNT)]
        self.brokers: dict[int, Broker] = {}
        """Those that run, by their ports."""
        self.runs = [asyncio.Event() for _ in range(COUNT)]
        """Not set of who is frozen."""
        for each in self.runs:
            each.set()

    @asynccontextmanager
    async def worker(self, index: int) -> AsyncIterator[tuple[Broker, Worker]]:
        """Killed at the end of the block."""
        own = LEADERS[index]
        broker = Broker(
            replace(self._config, node_id=own.node_id),
            [self.devices[index]],
            Storage("memory", lambda: (2**41, 2**40)),
            LoopClock(),
            SeededRandomness(self._rng),
            workers=Workers(COUNT, (index,), tuple(each for each in LEADERS if each != own)),
        )
        worker = Worker(broker, own.node_id, LEADERS, KEY, SeededRandomness(self._rng))

        async def live(has_begun: "asyncio.Future[None]") -> None:
            async with asyncio.TaskGroup() as tasks:
                worker.begin(tasks, Line(self, index))
                has_begun.set_result(None)
                await asyncio.get_running_loop().create_future()

        async with started(broker), asyncio.TaskGroup() as tasks:
            has_begun = asyncio.get_running_loop().create_future()
            self.brokers[own.port] = broker
            living = tasks.create_task(live(has_begun))
            await has_begun
            try:
                yield broker, worker
            finally:
                living.cancel()
                del self.brokers[own.port]
        self.devices[index].kill()

    @asynccontextmanager
    async def workers(self) -> AsyncIterator[list[Broker]]:
        """All of them, when each knows everything."""
        async with AsyncExitStack() as stack:
            both = [await stack.enter_async_context(self.worker(index)) for index in range(COUNT)]
            for _, worker in both:
                await worker.may_serve.wait()
                await worker.knows_all.wait()
            await created(both[0][0], "first")
            yield [broker for broker, _ in both]


class Line:
    """From one worker to the others."""

    def __init__(self, machine: Machine, index: int) -> None:
        self._machine = machine
        self._runs = machine.runs[index]

    def tell(self, address: tuple[str, int], request: AnyRequest) -> bool:
        return False

    async def ask(
        self, address: tuple[str, int], request: AnyRequest, patience_s: float
    ) -> AnyAnswer:
        await self._runs.wait()
        asked = self._machine.brokers.get(address[1])
        if asked is None or asked.host.node is None:
            raise NodeAway("it is not there")
        said = await asked.host.node.answered(messages.encode(request))
        assert said is not None
        answer = messages.decode_answer(said)
        await self._runs.wait()
        return answer


def on_two_workers(
    scenario: Callable[[Machine], Coroutine[Any, Any, None]], config: BrokerConfig = CONFIG
) -> Callable[[], None]:
    async def on_a_machine() -> None:
        await scenario(Machine(config))

    def test() -> None:
        run(Random(1), on_a_machine())

    return test


async def created(broker: Broker, name: str, partition_count: int = COUNT) -> int:
    """The error code."""
    request = CreateTopicsRequest([CreatableTopic(name, partition_count, 1)])
    (answer,) = (await call(broker, "create_topics", 7, request)).topics
    return int(answer.error_code)


async def deleted(broker: Broker, name: str) -> int:
    request = DeleteTopicsRequest([DeleteTopicState(name)])
    (answer,) = (await call(broker, "delete_topics", 6, request)).responses
    return int(answer.error_code)


async def produced(broker: Broker, name: str, index: int) -> tuple[int, int]:
    """Error code and offset."""
    data = TopicProduceData(name, [PartitionProduceData(index, BATCH)])
    answer = await call(broker, "produce", 9, ProduceRequest(None, -1, 30_000, [data]))
    (partition,) = answer.responses[0].partition_responses
    return partition.error_code, partition.base_offset


async def leaders(broker: Broker, name: str) -> list[tuple[int, int]]:
    """Node and epoch of each partition."""
    request = MetadataRequest([MetadataRequestTopic(name=name)], False)
    (topic,) = (await call(broker, "metadata", 9, request)).topics
    return [(each.leader_id, each.leader_epoch) for each in topic.partitions]


@on_two_workers
async def test_a_topic_is_known_to_all_when_its_client_hears_that_it_is_there(
    machine: Machine,
) -> None:
    async with machine.workers() as (first, second):
        assert await created(first, "t", 3) == NONE
        assert await leaders(first, "t") == await leaders(second, "t") == [(1, 0), (2, 0), (1, 0)]
        assert await produced(second, "t", 1) == (NONE, 0)
        assert await produced(first, "t", 0) == (NONE, 0)
        assert await produced(second, "t", 0) == (NotLeaderOrFollower.code, -1)
        growing = CreatePartitionsRequest([CreatePartitionsTopic("t", 4)], 10_000, False)
        (grown,) = (await call(first, "create_partitions", 3, growing)).results
        assert grown.error_code == NONE
        assert await produced(second, "t", 3) == (NONE, 0)
        assert await deleted(first, "t") == NONE
        assert not second.lanes.by_number[1].view.hosts("t")
        assert await created(first, "t", 3) == NONE
        assert await produced(second, "t", 1) == (NONE, 0)


@on_two_workers
async def test_only_who_leads_the_topics_makes_them(machine: Machine) -> None:
    async with machine.workers() as (_, second):
        assert await created(second, "t") == NotController.code
        assert await deleted(second, "first") == NotController.code


@on_two_workers
async def test_coordinators_are_found_through_any_worker(machine: Machine) -> None:
    async with machine.workers() as (first, second):
        found: dict[str, int] = {}
        for name in map(str, range(20)):
            request = FindCoordinatorRequest(name, 0)
            answers = [await call(each, "find_coordinator", 3, request) for each in (first, second)]
            assert [answer.error_code for answer in answers] == [NONE, NONE]
            lane = LEADERS[first.coordinators.lane_of_group(name)]
            assert [answer.node_id for answer in answers] == [lane.node_id, lane.node_id]
            # As the client has found this machine.
            assert (answers[0].host, answers[0].port) == ("127.0.0.1", lane.port)
            found[name] = lane.node_id
        assert set(found.values()) == {1, 2}
        assert second.lanes.by_number[1].view.hosts(OFFSETS_TOPIC)


@on_two_workers
async def test_settings_of_topics_and_brokers_count_everywhere(machine: Machine) -> None:
    async with machine.workers() as (first, second):
        for kind, name, setting, value in (
            (2, "first", "retention.ms", "77"),
            (BROKER_SETTINGS, "", "log.retention.ms", "88"),
            (BROKER_SETTINGS, "2", "message.max.bytes", "2000"),
        ):
            entry = AlterableConfig(setting, 0, value)
            resource = AlterConfigsResource(kind, name, [entry])
            request = IncrementalAlterConfigsRequest([resource], False)
            (answer,) = (await call(first, "incremental_alter_configs", 1, request)).responses
            assert answer.error_code == NONE, answer.error_message
        assert second.lanes.catalogue.named("first").config == {"retention.ms": "77"}
        assert second.config.log_retention_ms == first.config.log_retention_ms == 88
        assert second.config.message_max_bytes == 2_000
        assert first.config.message_max_bytes == CONFIG.message_max_bytes


def alteration(value: float, *, is_removed: bool = False) -> AlterClientQuotasRequest:
    operation = OpData("producer_byte_rate", value, is_removed)
    return AlterClientQuotasRequest([EntryData([EntityData("user", "ann")], [operation])])


@on_two_workers
async def test_quotas_count_everywhere_when_who_sets_them_hears_so(machine: Machine) -> None:
    async with machine.workers() as (first, second):
        (entry,) = (await call(second, "alter_client_quotas", 1, alteration(5.0))).entries
        assert entry.error_code == NotController.code
        for request, is_limited in (
            (alteration(5.0), True),
            (alteration(0, is_removed=True), False),
        ):
            (entry,) = (await call(first, "alter_client_quotas", 1, request)).entries
            assert entry.error_code == NONE
            for broker in (first, second):
                assert broker.metering.limits_clients is is_limited
        await call(first, "alter_client_quotas", 1, alteration(7.0))
        described = await call(second, "describe_client_quotas", 1, DescribeClientQuotasRequest())
        assert [each.values[0].value for each in described.entries] == [7.0]
    async with machine.workers() as (_, second):
        assert second.metering.limits_clients


@on_two_workers
async def test_a_name_is_not_free_before_every_worker_has_dropped_what_it_had(
    machine: Machine,
) -> None:
    """Records for the new topic would go into the old one, and be dropped with it."""
    async with machine.workers() as (first, second):
        assert await created(first, "t") == NONE
        machine.runs[1].clear()
        assert await deleted(first, "t") == NONE
        await elapse(60)
        assert second.lanes.by_number[1].view.hosts("t")
        assert await created(first, "t") == TopicAlreadyExists.code
        machine.runs[1].set()
        await elapse(5)
        assert await created(first, "t") == NONE
        assert await produced(second, "t", 1) == (NONE, 0)


@on_two_workers
async def test_no_topic_is_made_before_every_worker_has_heard_of_all(machine: Machine) -> None:
    """Whoever leads the topics anew does not know any more what was deleted before."""
    async with machine.worker(1) as (second, _):
        async with machine.worker(0) as (first, worker):
            await worker.knows_all.wait()
            assert await created(first, "t") == NONE
            machine.runs[1].clear()
            assert await deleted(first, "t") == NONE
        async with machine.worker(0) as (first, worker):
            assert await created(first, "t") == RequestTimedOut.code
            assert second.lanes.by_number[1].view.hosts("t")
            machine.runs[1].set()
            assert await created(first, "t") == NONE
            assert await produced(second, "t", 1) == (NONE, 0)


@on_two_workers
async def test_a_worker_that_comes_back_serves_when_it_has_dropped_what_is_gone(
    machine: Machine,
) -> None:
    async with machine.worker(0) as (first, _):
        async with machine.worker(1) as (second, worker):
            await worker.may_serve.wait()
            assert await created(first, "gone") == NONE
            assert await created(first, "kept") == NONE
            assert await produced(second, "kept", 1) == (NONE, 0)
        assert await deleted(first, "gone") == NONE
        assert await created(first, "gone") == TopicAlreadyExists.code
        machine.runs[1].clear()
        async with machine.worker(1) as (second, worker):
            assert second.lanes.by_number[1].view.hosts("gone")
            await elapse(10)
            assert not worker.may_serve.is_set()
            machine.runs[1].set()
            await worker.may_serve.wait()
            assert not second.lanes.by_number[1].view.hosts("gone")
            assert await leaders(second, "kept") == [(1, 0), (2, 0)]
            assert await produced(second, "kept", 1) == (NONE, 1)
            await elapse(5)
            assert await created(first, "gone") == NONE
            assert await produced(second, "gone", 1) == (NONE, 0)


@on_two_workers
async def test_what_is_known_goes_on_being_served_while_nobody_leads_the_topics(
    machine: Machine,
) -> None:
    async with machine.worker(1) as (second, worker):
        async with machine.worker(0) as (first, _):
            await worker.knows_all.wait()
            assert await created(first, "t") == NONE
        await elapse(60)
        assert await produced(second, "t", 1) == (NONE, 0)
        assert await leaders(second, "t") == [(1, 0), (2, 0)]
        assert await produced(second, "other", 0) == (NotLeaderOrFollower.code, -1)


@on_two_workers
async def test_many_topics_are_told_in_pieces(machine: Machine) -> None:
    async with machine.worker(0) as (first, _):
        async with machine.worker(1) as (_, worker):
            await worker.may_serve.wait()
            topics = [CreatableTopic(str(number), 1, 1) for number in range(1_200)]
            await call(first, "create_topics", 7, CreateTopicsRequest(topics))
        async with machine.worker(1) as (second, worker):
            await worker.may_serve.wait()
            assert len(second.lanes.catalogue) == len(first.lanes.catalogue) == 1_202
            names = [{each.name for each in broker.lanes.catalogue} for broker in (first, second)]
            assert names[0] == names[1]
