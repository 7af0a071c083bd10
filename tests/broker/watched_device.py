"""A disk in memory that counts its reads and has a place that cannot be read."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

from semel.broker.broker import Broker
from semel.journal.file.memory import MemoryDevice
from semel.types import TopicPartition
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from support.handled import CONFIG, call, opened, started
from support.inside import partitions_of
from support.seeded_loop import run


class WatchedDevice(MemoryDevice):
    """Counts its reads; one that touches the broken place comes back short."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.reads = 0
        self.broken: int | None = None

    def break_at(self, broker: Broker, place: TopicPartition, offset: int) -> None:
        """The batch that holds this offset can no longer be read."""
        lane = broker.lanes.controller
        number = partitions_of(lane._state, place.topic)[place.partition].number
        ((position, _), *_) = lane._journal.index.extents(number, offset, offset + 1, 1)
        self.broken = broker.journals[0].segments.locate(position)[1] + 1

    def read(self, name: str, offset: int, size: int) -> bytes:
        self.reads += 1
        if self.broken is not None and offset <= self.broken < offset + size:
            size = self.broken - offset
        return super().read(name, offset, size)


def with_topic(
    partition_count: int,
    scenario: Callable[[Broker, WatchedDevice], Awaitable[None]],
    tail_bytes: int = 0,
) -> None:
    """On a broker whose only topic is `t`, and which holds no records in memory unless told to."""

    async def main() -> None:
        device = WatchedDevice()
        broker = opened(device, Random(1), replace(CONFIG, journal_tail_bytes=tail_bytes))
        async with started(broker):
            topic = CreatableTopic("t", partition_count, 1)
            await call(broker, "create_topics", 5, CreateTopicsRequest([topic]))
            await scenario(broker, device)

    run(Random(1), main())
