"""Consumers while their broker is killed and paused, and while they are killed themselves."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

import semel
from client.consuming import reading_app
from client.consuming.group_members import Member, Members
from semel.errors import RequestError
from semel.testing import Broker
from semel.types import TopicPartition

PARTITION_COUNT = 6
VAIN_POLLS = 5


@pytest.mark.parametrize("is_member", [False, True])
def test_a_consumer_reads_on_over_kills_of_its_broker(tmp_path: Path, is_member: bool) -> None:
    goal = 2_000
    with (
        Broker(data=tmp_path / "data", settings={"num.partitions": 2}) as broker,
        semel.Producer(broker.bootstrap_servers, linger_ms=1, batch_size_max=200) as producer,
        semel.Consumer(
            broker.bootstrap_servers,
            "readers" if is_member else None,
            heartbeat_interval_ms=100,
            fetch_wait_ms_max=50,
        ) as consumer,
    ):
        producer.send("t", b"0", partition=0).result(30)
        producer.send("t", b"0", partition=1).result(30)
        if is_member:
            consumer.subscribe("t")
        else:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        for number in range(1, goal):
            producer.send("t", str(number), partition=0)
            producer.send("t", str(number), partition=1)
        seen: list[list[int]] = [[], []]
        kills = 0
        while min(map(len, seen)) < goal:
            for record in consumer.poll(1_000, 50):
                seen[record.partition].append(int(record.value))
            if sum(map(len, seen)) > 600 * (kills + 1) and kills < 4:
                kills += 1
                broker.kill()
                broker.start()
        assert seen == [list(range(goal)), list(range(goal))]
        assert kills == 4
        if is_member:
            consumer.commit()
            assert set(consumer.committed().values()) == {goal}


def test_a_consumer_whose_broker_is_gone_gives_up_in_time() -> None:
    with Broker() as broker:
        consumer = semel.Consumer(
            broker.bootstrap_servers,
            "readers",
            request_timeout_ms=300,
            block_timeout_ms=300,
            heartbeat_interval_ms=100,
        )
        with semel.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"0").result(30)
        consumer.subscribe("t")
        assert len(consumer.poll(30_000)) == 1
        broker.kill()
        # Nobody is there, which may pass; so that this is no error.
        assert consumer.poll(200) == []
        with pytest.raises(RequestError):
            consumer.commit()
        consumer.close()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_shares_and_reads_on_over_kills_and_pauses_of_its_broker(
    tmp_path: Path, assignor: str
) -> None:
    random = Random(assignor)

    async def work(broker: Broker) -> None:
        members = Members(broker.bootstrap_servers, "readers", ["t"])
        alive: list[tuple[AsyncExitStack, Member]] = []
        is_over = asyncio.Event()

        async def add() -> None:
            stack = AsyncExitStack()
            # The group waits for a member that is gone unheard until its session is over.
            options = {
                "assignor": assignor,
                "fetch_wait_ms_max": 50,
                "session_timeout_ms": 10_000,
            }
            alive.append((stack, await stack.enter_async_context(members.member(**options))))

        async def send(producer: semel.AsyncProducer) -> int:
            """Until all is done that is done to the group; how many were sent."""
            count = 0
            while not is_over.is_set():
                for partition in range(PARTITION_COUNT):
                    await producer.send("t", str(count), partition=partition)
                    count += 1
                await producer.flush()
            return count

        try:
            async with (
                semel.AsyncProducer(broker.bootstrap_servers) as producer,
                asyncio.TaskGroup() as tasks,
            ):
                await (await producer.send("t", b"first", partition=0))
                await add()
                sending = tasks.create_task(send(producer))
                for turn in range(8):
                    goal = len(members.read) + 300
                    await members.until(lambda goal=goal: len(members.read) >= goal)  # type: ignore[misc]
                    if turn % 4 == 0:
                        await asyncio.to_thread(broker.kill)
                        await asyncio.to_thread(broker.start)
                    elif turn % 4 == 2:
                        broker.pause()
                        # Until each has waited in vain several times, for a heartbeat and for more.
                        goals = [(each, each.vain_polls + VAIN_POLLS) for _, each in alive]
                        await members.until(
                            lambda goals=goals: all(  # type: ignore[misc]
                                each.vain_polls >= goal for each, goal in goals
                            )
                        )
                        broker.resume()
                    elif turn % 4 == 1 or len(alive) == 1:
                        await add()
                        await add()
                    else:
                        stack, _ = alive.pop(random.randrange(len(alive)))
                        await stack.aclose()
                is_over.set()
            total = sending.result() + 1
            await members.until(lambda: len(members.read) == total)
            size = PARTITION_COUNT // len(alive)
            await members.until(lambda: all(len(each.owned) >= size for _, each in alive))
            # A group that outlives its broker goes on where each member stood.
            assert set(members.read.values()) == {1}
        finally:
            for stack, _ in alive:
                await stack.aclose()

    with Broker(data=tmp_path / "data", settings={"num.partitions": PARTITION_COUNT}) as broker:
        asyncio.run(work(broker))


def test_what_a_killed_member_had_goes_to_another_at_its_last_commit() -> None:
    with Broker(settings={"num.partitions": 2, "group.min.session.timeout.ms": 100}) as broker:
        servers = broker.bootstrap_servers
        with semel.Producer(servers) as producer:
            for number in range(100):
                producer.send("t", str(number), partition=number % 2)
        command = [sys.executable, str(Path(reading_app.__file__)), servers, "t", "readers"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                lines = [process.stdout.readline() for _ in range(35)]
            finally:
                process.kill()
            # It was not waited for: it may have read, and committed, more.
            lines += process.stdout.readlines()
        read = {tuple(map(int, line.split())) for line in lines}
        with semel.Consumer(servers, "readers", heartbeat_interval_ms=100) as consumer:
            consumer.subscribe("t")
            again: set[tuple[int, ...]] = set()
            while len(read | again) < 100:
                again |= {(each.partition, each.offset) for each in consumer.poll(10_000)}
    # All that was not committed comes, and nothing that was.
    assert len(again) <= 70
    assert read | again == {(place, offset) for place in range(2) for offset in range(50)}
