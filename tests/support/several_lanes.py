"""A broker that leads several lanes, each on a disk in memory that fails by itself."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig
from semel.errors import NONE
from semel.journal.file.device import Done
from semel.journal.file.memory import MemoryDevice
from semel.lane.calls import AnyCall, AnyReply, LaneAway
from semel.types import TopicPartition
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from support.handled import CONFIG, LoopClock, SeededRandomness, call, started
from support.seeded_loop import elapse
from support.transactional_wire import Fetched

LANE_COUNT = 3
READ_COMMITTED = 1
LATEST, MAX_TIMESTAMP = -1, -3


class _Least(Random):
    """Draws the first of all that is possible."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        return a


class SteppedDevice(MemoryDevice):
    """Its syncs can be held up, and all that waits for them be lost."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.holds_syncs = False
        self.sync_count = 0
        self._held: list[tuple[Sequence[str], bool, Done]] = []

    def submit_sync(self, names: Sequence[str], folder: bool, on_done: Done) -> None:
        self.sync_count += 1
        if self.holds_syncs:
            self._held.append((names, folder, on_done))
        else:
            super().submit_sync(names, folder, on_done)

    @property
    def held_count(self) -> int:
        return len(self._held)

    def release(self) -> None:
        self.holds_syncs = False
        self.release_those_held()

    def release_those_held(self) -> None:
        """And none that come later."""
        held, self._held = self._held, []
        for each in held:
            super().submit_sync(*each)

    def fail_held(self) -> None:
        """Nobody waits for them any more."""
        held, self._held = self._held, []
        self.holds_syncs = False
        for _, _, on_done in held:
            on_done(OSError(errno.EIO, "Input/output error"))

    def kill(self) -> None:
        self._held = []
        self.holds_syncs = False
        super().kill()

    def lose_all_unsynced(self) -> None:
        rng, self._rng = self._rng, _Least(0)
        self.power_loss()
        self._rng = rng


class SeveralLanes:
    def __init__(
        self, config: BrokerConfig = CONFIG, lane_count: int = LANE_COUNT, seed: int = 1
    ) -> None:
        self._rng = Random(seed)
        self._config = config
        self._clock = LoopClock()
        self.devices = [
            SteppedDevice(Random(1_000 * seed + number)) for number in range(lane_count)
        ]

    def opened(self) -> Broker:
        storage = Storage("memory", lambda: (2**41, 2**40))
        randomness = SeededRandomness(self._rng)
        return Broker(self._config, self.devices, storage, self._clock, randomness)

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        """Killed at the end of the block."""
        async with started(self.opened()) as broker:
            yield broker
        for device in self.devices:
            device.kill()

    def lose_power(self, lanes: Iterable[int] | None = None) -> None:
        for number in range(len(self.devices)) if lanes is None else lanes:
            self.devices[number].power_loss()


async def create(broker: Broker, topic: str = "t") -> None:
    """With one partition in each lane."""
    request = CreateTopicsRequest([CreatableTopic(topic, broker.lanes.count, 1)])
    (created,) = (await call(broker, "create_topics", 7, request)).topics
    assert created.error_code == NONE
    for key_type in range(2):
        find = FindCoordinatorRequest("any", key_type)
        assert (await call(broker, "find_coordinator", 3, find)).error_code == NONE


def transactional_id_in(broker: Broker, lane_number: int, prefix: str = "tx") -> str:
    names = (f"{prefix}{number}" for number in range(1_000))
    of = broker.coordinators.lane_of_transactional_id
    return next(name for name in names if of(name) == lane_number)


def group_in(broker: Broker, lane_number: int) -> str:
    names = (f"g{number}" for number in range(1_000))
    of = broker.coordinators.lane_of_group
    return next(name for name in names if of(name) == lane_number)


async def read(
    broker: Broker, partition: int, topic: str = "t", max_wait_ms: int = 0
) -> list[bytes]:
    """The values that a read_committed reader is shown, from the start."""
    fetched = await fetched_from(broker, partition, topic, max_wait_ms)
    return [value or b"" for value in fetched.committed_values]


async def fetched_from(
    broker: Broker, partition: int, topic: str = "t", max_wait_ms: int = 0
) -> Fetched:
    wanted = FetchPartition(partition, fetch_offset=0, partition_max_bytes=2**20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=2**20,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic, partitions=[wanted])],
    )
    answer = await call(broker, "fetch", 11, request)
    (data,) = answer.responses[0].partitions
    assert data.error_code == NONE
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    raw = b"".join(bytes(each) for each in data.records or ())
    return Fetched(data.high_watermark, data.last_stable_offset, aborted, raw)


async def fetched_code(broker: Broker, partition: int, isolation_level: int) -> tuple[int, int]:
    """Error code and last stable offset, as a fetch tells them that does not wait."""
    wanted = FetchPartition(partition, fetch_offset=0, partition_max_bytes=2**20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=2**20,
        isolation_level=isolation_level,
        topics=[FetchTopic("t", partitions=[wanted])],
    )
    answer = await call(broker, "fetch", 11, request)
    (data,) = answer.responses[0].partitions
    return data.error_code, data.last_stable_offset


async def stable_end(broker: Broker, partition: int, topic: str = "t") -> tuple[int, int]:
    """Error code and last stable offset."""
    return await offset_at(broker, partition, LATEST, topic)


async def offset_at(
    broker: Broker, partition: int, timestamp_ms: int, topic: str = "t"
) -> tuple[int, int]:
    """Error code, and the first offset at this time or behind it that is stable; -1: none."""
    wanted = ListOffsetsPartition(partition, -1, timestamp_ms)
    topics = [ListOffsetsTopic(topic, [wanted])]
    request = ListOffsetsRequest(-1, READ_COMMITTED, topics)
    answer = await call(broker, "list_offsets", 7, request)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.offset


async def committed_offset(
    broker: Broker, group_id: str, partition: TopicPartition, *, stable: bool = True
) -> tuple[int, int]:
    """Error code and offset."""
    topics = [OffsetFetchRequestTopics(partition.topic, partition_indexes=[partition.partition])]
    group = OffsetFetchRequestGroup(group_id, topics=topics)
    request = OffsetFetchRequest(groups=[group], require_stable=stable)
    answer: Any = await call(broker, "offset_fetch", 8, request)
    if answer.groups[0].error_code != NONE:
        return answer.groups[0].error_code, -1
    (found,) = answer.groups[0].topics[0].partitions
    return found.error_code, found.committed_offset


class Wire:
    """What lanes of one broker say to each other, for a test to hold up, to lose and to hear."""

    def __init__(self, broker: Broker) -> None:
        self._ask = broker.peers.ask
        self.said: list[tuple[int, AnyCall]] = []
        self.lost: list[Callable[[int, AnyCall], bool]] = []
        """Calls that any of these is true of come back as from a lane that is away, unheard."""
        self.held: list[Callable[[int, AnyCall], bool]] = []
        """They wait until nothing here is true of them any more, before they are heard."""
        self.answers_held: list[Callable[[int, AnyCall], bool]] = []
        """As above, between being heard and coming back."""
        broker.peers.ask = self.ask  # type: ignore[method-assign]

    async def ask(self, lane: int, call: AnyCall) -> AnyReply:
        await self._while(self.held, lane, call)
        if any(lose(lane, call) for lose in self.lost):
            raise LaneAway("lost on the way")
        self.said.append((lane, call))
        reply = await self._ask(lane, call)
        await self._while(self.answers_held, lane, call)
        return reply

    async def _while(
        self, held: list[Callable[[int, AnyCall], bool]], lane: int, call: AnyCall
    ) -> None:
        while any(hold(lane, call) for hold in held):
            await elapse(0.01)


async def restart(
    machine: SeveralLanes, broker: Broker, number: int, *, power_loss: bool = False
) -> None:
    """Kill the worker of one lane, or let its disk lose power, and let it lead again."""
    device = machine.devices[number]
    stepping_down = asyncio.ensure_future(broker.leading.step_down(number))
    while number in broker.lanes.by_number:
        await elapse(0)
    device.fail_held()
    await stepping_down
    if power_loss:
        device.lose_all_unsynced()
    else:
        device.kill()
    await broker.leading.take_lane(number, device)
