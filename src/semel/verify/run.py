"""One simulated run: a seed decides the schedule, the network, the clients and what goes wrong."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol

from semel.errors import OffsetOutOfRange, SemelError
from semel.types import TopicPartition
from semel.verify.checks.checker import anomalies
from semel.verify.faults import Faults
from semel.verify.history import (
    Acknowledged,
    Assigned,
    Beaten,
    Began,
    CommitSent,
    Committed,
    CommittedFetched,
    Died,
    Ended,
    Fetched,
    History,
    NotServing,
    OffsetsWritten,
    Refusal,
    SpaceSeen,
    Stored,
    TopicMade,
    WholeLog,
)
from semel.verify.workloads.administrators import make_topic, topic_seen
from semel.verify.workloads.client import Client, Connection, Lost, Surroundings
from semel.verify.workloads.forgetting import note_limits
from semel.verify.workloads.groups import committed_offset
from semel.verify.workloads.population import Population
from semel.verify.workloads.producers import ACKS_ONE, PlainProducer
from semel.verify.workloads.readers import (
    fetch_request,
    partitions_of,
    start_of,
    stored_records,
    term_end_of,
)
from semel.verify.workloads.workload import LOG, Workload
from semel.verify.world.loop import SimulatedLoop, Trace, simulate
from semel.verify.world.machine import INTERNAL_TOPICS, Hopeless, Machine
from semel.verify.world.network import About, Network, OfGroup
from semel.wire.messages import describe_groups, fetch

BUDGET_S = 300.0
"""Simulated time that a run may take."""
PATIENCE_S = 200.0
PRODUCING_PATIENCE_S = 60.0
REST_PATIENCE_S = 30.0
SESSION_S_MAX = 60.0
"""The longest session that a member has asked for."""


class Outcome(NamedTuple):
    seed: int
    anomalies: list[str]
    fingerprint: str
    counts: Counter[str]


def run_seed(seed: int, workload: Workload = LOG) -> Outcome:
    return simulate(seed, lambda: _run(seed, workload), BUDGET_S)


async def _run(seed: int, workload: Workload) -> Outcome:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    trace = Trace(loop)
    history = History(trace)
    network = Network(Random(f"network {seed}"), trace)
    machine = Machine(seed, network, history, workload.config, workload.ordeal.background_delays_s)
    surroundings = Surroundings(network, machine, history)
    population = Population(seed, surroundings, workload.cast)
    observer = Client("observer", surroundings, seed)
    faults = Faults(seed, machine, network, population, history, workload.ordeal)
    try:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(PATIENCE_S):
            living = tasks.create_task(machine.run())
            await observer.process.start(make_topics(observer, workload))
            population.start()
            await faults.run(Random(f"length {seed}").uniform(*workload.ordeal.duration_s))
            await finish(population, history)
            population.end()
            await Finale(observer, machine, workload).run()
            living.cancel()
    except* TimeoutError:
        history.note(NotServing(f"the run did not end within {PATIENCE_S} s"))
    except* Hopeless:
        pass  # Why is in the history.
    machine.kill()
    for failure in population.failures():
        history.note(NotServing(failure))
    counts = _counts(machine, network, faults, history)
    counts["callbacks"] = loop.callback_count
    machine.bury()
    population.bury()
    observer.process.bury()
    return Outcome(seed, anomalies(history), trace.fingerprint, counts)


async def make_topics(client: Client, workload: Workload) -> None:
    for topic, partition_count in workload.topics.items():
        settings = workload.settings.get(topic, {})
        note_limits(client.history, topic, settings)
        while True:
            connection = await client.connect()
            try:
                made = await make_topic(connection, topic, partition_count, settings)
            except Lost:
                continue
            finally:
                connection.drop()
            if made is not None:
                client.history.note(made)
            break


async def finish(population: Population, history: History) -> None:
    try:
        async with asyncio.timeout(PRODUCING_PATIENCE_S):
            await population.finish_producing()
    except TimeoutError:
        history.note(NotServing(f"producers did not finish in {PRODUCING_PATIENCE_S} s"))


def _counts(machine: Machine, network: Network, faults: Faults, history: History) -> Counter[str]:
    counts = Counter(faults.counts)
    for died in history.all(Died):
        counts[f"died: {died.cause.value}"] += 1
    for acknowledged in history.all(Acknowledged):
        counts["records acknowledged"] += len(acknowledged.labels)
    for fetched in history.all(Fetched):
        counts["records read"] += len(fetched.records)
    counts["starts"] = machine.start_count
    counts["requests"] = machine.request_count
    counts["duplicates answered"] = machine.duplicate_count
    counts["segments filled"] = machine.segment_count - 1
    counts["connections"] = network.connection_count
    for loss, count in network.loss_counts.items():
        counts[f"connections {loss.value}"] = count
    counts["generations"] = history.count(Assigned)
    counts["heartbeats"] = history.count(Beaten)
    counts["offsets committed"] = history.count(Committed)
    counts["topics made"] = history.count(TopicMade)
    counts["transactions"] = history.count(Began)
    for ended in history.all(Ended):
        counts[f"transactions {ended.outcome.value}"] += 1
    for refused in history.all(Refusal):
        counts[f"refused with {refused.code}"] += 1
    counts["commits of unknown outcome"] = len(
        {sent.attempt for sent in history.all(CommitSent)}
        - {ended.attempt for ended in history.all(Ended)}
    )
    for whole in history.all(WholeLog):
        if whole.round == 0:
            counts["records forgotten"] += whole.log_start_offset
            left = whole.high_watermark - whole.log_start_offset
            counts["records replaced"] += left - len(whole.records)
    counts["volumes made"] = machine.device.volume_count
    for committed in history.all(CommittedFetched):
        counts["committed records read"] += len(committed.records)
    return counts


class Subject(Protocol):
    """What is under test, as far as its end needs it."""

    async def serving(self) -> None: ...

    def lose_power(self) -> None: ...

    async def stop(self) -> None: ...


class Finale:
    """All is read whole at rest, and read again after one more power loss and a stop."""

    def __init__(self, client: Client, machine: Subject, workload: Workload) -> None:
        self._workload = workload
        self._client = client
        self._machine = machine

    async def run(self) -> None:
        await self._within_patience(self._say_last_words())
        await asyncio.sleep(self._workload.rest_s)
        if self._workload.is_read_at_rest:
            await self._within_patience(self._read_all(0))
            await self._within_patience(
                self._see_members_go(), "members that did not go", SESSION_S_MAX
            )
        else:
            self._machine.lose_power()
            await self._within_patience(self._read_all(0))
        self._machine.lose_power()
        await self._within_patience(self._read_all(1))
        await self._machine.stop()
        await self._within_patience(self._read_all(2))

    async def _within_patience(
        self, work: Coroutine[Any, Any, None], complaint: str = "nothing", more_s: float = 0.0
    ) -> None:
        working = self._client.process.start(work)
        patience_s = REST_PATIENCE_S + more_s
        try:
            async with asyncio.timeout(patience_s):
                await working
        except TimeoutError:
            self._client.history.note(NotServing(f"{complaint} in {patience_s} s"))
        except (AssertionError, SemelError) as error:
            self._client.history.note(NotServing(repr(error)))

    async def _say_last_words(self) -> None:
        """A record that no one waits for must come to rest as well."""
        await self._machine.serving()
        await PlainProducer(self._client, self._workload.partitions, ACKS_ONE, 1).run()

    async def _see_members_go(self) -> None:
        """Sessions end also of those who are dead and could not say so."""
        while True:
            if await self._insist(self._member_count, OfGroup(self._workload.group)) == 0:
                return
            await asyncio.sleep(0.5)

    async def _member_count(self, connection: Connection) -> int:
        request = describe_groups.DescribeGroupsRequest([self._workload.group])
        (group,) = (await connection.ask(describe_groups, request)).message.groups
        return len(group.members)

    async def _read_all(self, round_number: int) -> None:
        await self._machine.serving()
        for partition in self._workload.partitions:
            whole = await self._insist(partial(self._read, partition, round_number), partition)
            self._client.history.note(whole)
        await self._look_around()
        if self._workload.settings:
            await self._weigh(round_number)

    async def _weigh(self, round_number: int) -> None:
        """What was read is all that there is, but for the topics that the broker keeps itself."""
        shown_bytes = sum(
            whole.byte_count
            for whole in self._client.history.all(WholeLog)
            if whole.round == round_number
        )
        for topic, partition_count in INTERNAL_TOPICS.items():
            seen = await self._insist(partial(topic_seen, topic=topic))
            for index in range(min(seen.partition_count, partition_count)):
                partition = TopicPartition(topic, index)
                whole = await self._insist(partial(self._read, partition, round_number), partition)
                shown_bytes += whole.byte_count
        assert isinstance(self._machine, Machine)
        device = self._machine.device
        disk_bytes = sum(device.size(name) for name in device.names())
        self._client.history.note(SpaceSeen(round_number, disk_bytes, shown_bytes))

    async def _insist(
        self, work: Callable[[Connection], Coroutine[Any, Any, Any]], about: About = None
    ) -> Any:
        while True:
            connection = await self._client.connect(about)
            try:
                return await work(connection)
            except Lost:
                await self._client.back_off()
            finally:
                connection.drop()

    async def _read(
        self, partition: TopicPartition, round_number: int, connection: Connection
    ) -> WholeLog:
        start = position = 0
        records: list[Stored] = []
        byte_count = 0
        while True:
            reply = await connection.ask(fetch, fetch_request({partition: position}))
            ((_, data),) = partitions_of(reply.message)
            if data.error_code == OffsetOutOfRange.code:
                start = position = await start_of(connection, partition)
                records.clear()
                byte_count = 0
                continue
            assert data.error_code == 0, f"{partition} at {position}: error {data.error_code}"
            found, next_offset = stored_records(data, position)
            records += found
            byte_count += len(data.records or b"")
            if next_offset == position:
                assert position == data.high_watermark, f"{partition} ends at {position}"
                return WholeLog(
                    round_number,
                    partition,
                    tuple(records),
                    data.high_watermark,
                    data.last_stable_offset,
                    start,
                    byte_count,
                    reply.span.began_s,
                )
            position = next_offset

    async def _look_around(self) -> None:
        history = self._client.history
        await self._insist(self._see_topics)
        copied = [(each.group, each.partition) for each in history.all(OffsetsWritten)]
        shared = [(self._workload.group, each) for each in self._workload.shared]
        for group, partition in dict.fromkeys(copied + shared):
            reading = partial(committed_offset, group=group, partition=partition)
            seen = await self._insist(reading, OfGroup(group))
            # Everything is at rest.
            history.note(seen._replace(is_stable=True))
        for partition in self._workload.partitions:
            await self._insist(partial(self._see_terms, partition), partition)

    async def _see_topics(self, connection: Connection) -> None:
        history = self._client.history
        for topic in dict.fromkeys(made.topic for made in history.all(TopicMade)):
            history.note(await topic_seen(connection, topic))

    async def _see_terms(self, partition: TopicPartition, connection: Connection) -> None:
        for term in range(connection.term + 1):
            self._client.history.note(await term_end_of(connection, partition, term))
