"""A broker that was held up hears who has spoken meanwhile before it calls anyone silent."""

import asyncio
import time
from random import Random

import pytest

from semel.broker.broker import Broker
from semel.broker.connection import Connection
from semel.broker.inbox import SCRATCH_SIZE
from semel.broker.server import Server
from semel.errors import NONE, UnknownMemberId
from semel.journal.file.memory import MemoryDevice
from semel.lane.clock import WATCHED_MS
from semel.records.records import Record, encode_batch
from semel.testing import Broker as BrokerProcess
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.sync_group import SyncGroupRequest
from support.handled import call, opened, started
from support.raw_client import RawClient, decoded_reply, encoded, request_frame
from support.seeded_loop import SeededLoop, elapse, run

SEEDS = range(10)


def join_request(group: str, session_ms: int) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(group, session_ms, 60_000, "", None, "consumer", protocols)


async def join(broker: Broker, group: str, session_ms: int) -> HeartbeatRequest:
    """The heartbeat of the group's only member."""
    joined = await call(broker, "join_group", 3, join_request(group, session_ms))
    syncing = SyncGroupRequest(group, 1, joined.member_id)
    assert (await call(broker, "sync_group", 3, syncing)).error_code == NONE
    return HeartbeatRequest(group, 1, joined.member_id)


async def beat(broker: Broker, heartbeat: HeartbeatRequest) -> int:
    return int((await call(broker, "heartbeat", 3, heartbeat)).error_code)


async def read_after(pass_count: int, broker: Broker, heartbeat: HeartbeatRequest) -> int:
    """The answer to what waits in a socket, and is found there after some passes of the loop."""
    for _ in range(pass_count):
        await asyncio.sleep(0)
    return await beat(broker, heartbeat)


def freeze(duration_s: float) -> None:
    """Nothing of this process runs for a while, as after SIGSTOP or on a machine that sleeps."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SeededLoop)
    loop.now_s += duration_s


@pytest.mark.parametrize("seed", SEEDS)
def test_a_heartbeat_that_waits_is_heard_before_its_member_is_judged(seed: int) -> None:
    """Also in a stall so short that it counts as time that has passed."""
    rng = Random(f"stall {seed}")
    stall_s = 0.95 * WATCHED_MS / 1000

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            heartbeat = await join(broker, "g", 1_500)
            silent = await join(broker, "silent", 1_500)
            freeze(stall_s)
            assert await read_after(rng.randrange(4), broker, heartbeat) == NONE
            await elapse(0.1)
            assert await beat(broker, heartbeat) == NONE
            assert await beat(broker, silent) == UnknownMemberId.code

    run(rng, main())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stall_is_nobodys_silence(seed: int) -> None:
    """A member whose connection broke meanwhile has the time that is left to it to come back."""
    rng = Random(f"stall {seed}")

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            heartbeat = await join(broker, "g", 6_000)
            silent = await join(broker, "silent", 6_000)
            await elapse(rng.uniform(0, 2))
            freeze(600)
            await elapse(1.5)
            assert await beat(broker, heartbeat) == NONE
            await elapse(4.6)
            assert await beat(broker, heartbeat) == NONE
            assert await beat(broker, silent) == UnknownMemberId.code

    run(rng, main())


def test_all_that_a_socket_can_hold_is_read_and_no_more_is_waited_for() -> None:
    rng = Random(1)

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with asyncio.TaskGroup() as tasks, started(broker):
            server = Server(broker, tasks)
            connection = Connection(server)
            sizes: list[int] = []

            async def send_a_large_request(count: int) -> None:
                """Each pass of the loop reads as much as there is room for."""
                unfinished = (10**7).to_bytes(4, "big")
                for _ in range(count):
                    buffer = connection.get_buffer(-1)
                    if not sizes:
                        buffer[: len(unfinished)] = unfinished
                    sizes.append(len(buffer))
                    connection.buffer_updated(len(buffer))
                    await asyncio.sleep(0)

            sending = tasks.create_task(send_a_large_request(12))
            await server.read_what_waits()
            assert sending.done()
            assert sum(sizes) > 10 * SCRATCH_SIZE
            sending = tasks.create_task(fill_for_ever(server))
            await server.read_what_waits()
            assert not sending.done()
            sending.cancel()

    run(rng, main())


async def fill_for_ever(server: Server) -> None:
    while True:
        server.full_read_count += 1
        await asyncio.sleep(0)


def test_a_stopped_process_expels_nobody_and_aborts_nothing_whose_request_waits() -> None:
    settings = {"group.min.session.timeout.ms": 1}
    with (
        BrokerProcess(settings=settings) as broker,
        RawClient(broker) as member,
        RawClient(broker) as producer,
    ):
        producer.create_topic("t")
        joined = member.call("join_group", 3, join_request("g", 1_000))
        member.call("sync_group", 3, SyncGroupRequest("g", 1, joined.member_id))
        other = member.call("join_group", 3, join_request("h", 1_000))
        member.call("sync_group", 3, SyncGroupRequest("h", 1, other.member_id))
        given = producer.call("init_producer_id", 4, InitProducerIdRequest("id", 1_000))
        identity = (given.producer_id, given.producer_epoch)
        batch = encode_batch(
            [Record(None, b"whole")],
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = TopicProduceData("t", [PartitionProduceData(0, batch)])
        producer.call("produce", 12, ProduceRequest("id", -1, 30_000, [data]))
        broker.pause()
        member.send(beat_frame("g", joined.member_id))
        commit = EndTxnRequest("id", *identity, True)
        producer.send(request_frame("end_txn", 5, encoded("end_txn", 5, commit)))
        with RawClient(broker) as at_the_door:
            at_the_door.send(beat_frame("h", other.member_id))
            time.sleep(2.5)  # Longer than sessions and timeout; this is what is tested.
            broker.resume()
            assert answered(member, "heartbeat", 3) == NONE
            assert answered(at_the_door, "heartbeat", 3) == NONE
        assert answered(producer, "end_txn", 5) == NONE


def beat_frame(group: str, member_id: str) -> bytes:
    return request_frame(
        "heartbeat", 3, encoded("heartbeat", 3, HeartbeatRequest(group, 1, member_id))
    )


def answered(client: RawClient, module: str, version: int) -> int:
    reply = client.receive()
    assert reply is not None
    return int(decoded_reply(module, version, reply).error_code)
