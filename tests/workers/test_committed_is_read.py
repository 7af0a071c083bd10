"""Who hears that a transaction is committed finds it at once, in whichever worker it lies."""

import asyncio
import itertools
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.broker.between import reading_at_once
from semel.broker.connection import Connection
from semel.records.partitioning import partition_for
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.compiled import plain_python
from support.raw_client import LATEST, RawClient

COMMITS = 200
IDS_PARTITIONS = 50
READ_COMMITTED = 1
READERS = 8


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", workers=2) as broker:
        yield broker


def to(broker: Broker, index: int) -> RawClient:
    return RawClient(SimpleNamespace(port=broker.port + index))


def test_whoever_asks_next_finds_what_was_committed(workers: Broker) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(to(workers, index)) for index in range(2)]
        readers = [stack.enter_context(to(workers, 1)) for _ in range(READERS)]
        commit_and_look(clients, readers)


def commit_and_look(clients: list[RawClient], readers: list[RawClient]) -> None:
    coordinator = clients[0]
    for lane in range(2):
        coordinator.create_topic(f"lane-{lane}", semel_lane=str(lane))
    name = next(
        each
        for each in (f"id-{number}" for number in itertools.count())
        if partition_for(each, IDS_PARTITIONS) % 2 == 0
    )
    coordinator.call("find_coordinator", 2, FindCoordinatorRequest(name, 1))
    producer = coordinator.call("init_producer_id", 5, InitProducerIdRequest(name, 60_000))
    assert producer.error_code == 0
    producer_id, epoch = producer.producer_id, producer.producer_epoch
    for count in range(1, COMMITS + 1):
        batch = encode_batch(
            [Record(None, b"x", 1_700_000_000_000)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        for lane, client in enumerate(clients):
            data = [TopicProduceData(f"lane-{lane}", [PartitionProduceData(0, batch)])]
            written = client.call("produce", 12, ProduceRequest(name, -1, 30_000, data))
            assert written.responses[0].partition_responses[0].error_code == 0
        ended = coordinator.call("end_txn", 5, EndTxnRequest(name, producer_id, epoch, True))
        assert ended.error_code == 0
        producer_id, epoch = ended.producer_id, ended.producer_epoch
        wanted = ListOffsetsTopic("lane-1", [ListOffsetsPartition(0, timestamp=LATEST)])
        asked = ListOffsetsRequest(-1, READ_COMMITTED, [wanted])
        found = readers[count % READERS].call("list_offsets", 7, asked).topics[0].partitions[0]
        assert found.error_code == 0
        # With the markers of those before.
        assert found.offset >= 2 * count - 1


class Listener:
    """A connection that is told what has come."""

    def __init__(self) -> None:
        self.received = b""
        self._buffer = bytearray(8)

    def get_buffer(self, size: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        self.received += self._buffer[:count]

    is_closing = False
    _may_read = True

    def read_now(self, descriptor: int) -> bool:
        return Connection.read_now(cast(Connection, self), descriptor)


@plain_python
def test_what_was_written_to_a_socket_of_the_machine_is_read_before_the_loop_looks() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            listener: Any = Listener()
            transport: Any = SimpleNamespace(get_extra_info=lambda name: ours)
            read = reading_at_once(listener, transport)
            assert read is not None
            assert not read()
            assert listener.received == b""
            theirs.sendall(b"more than fits in at once")
            assert read()
            assert listener.received == b"more than fits in at once"
            theirs.close()
            assert not read()

    asyncio.run(scenario())


def test_what_comes_over_a_network_is_not_relied_on() -> None:
    connected = SimpleNamespace(family=socket.AF_INET)
    transport: Any = SimpleNamespace(get_extra_info=lambda name: connected)
    listener: Any = Listener()
    assert reading_at_once(listener, transport) is None
