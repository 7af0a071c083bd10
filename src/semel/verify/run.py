"""One simulated run: a seed decides the schedule, the network, the clients and what goes wrong."""

import asyncio
from collections import Counter
from random import Random
from typing import NamedTuple

from semel.verify.administrator import make_topic
from semel.verify.checker import anomalies
from semel.verify.client import Client
from semel.verify.faults import Faults
from semel.verify.finale import Finale
from semel.verify.history import (
    Acknowledged,
    Assigned,
    Beaten,
    Committed,
    Died,
    Fetched,
    History,
    NotServing,
    TopicMade,
)
from semel.verify.link import Lost, Surroundings
from semel.verify.machine import Hopeless, Machine
from semel.verify.population import Population
from semel.verify.simulated_loop import SimulatedLoop, simulate
from semel.verify.simulated_network import Network
from semel.verify.trace import Trace
from semel.verify.transaction_history import (
    Began,
    CommitSent,
    CommittedFetched,
    Ended,
    Refusal,
)
from semel.verify.workload import LOG, Workload

BUDGET_S = 300.0
"""Simulated time that a run may take."""
PATIENCE_S = 200.0
PRODUCING_PATIENCE_S = 60.0


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
    machine = Machine(seed, network, history)
    surroundings = Surroundings(network, machine, history)
    population = Population(seed, surroundings, workload.cast)
    observer = Client("observer", surroundings, seed)
    faults = Faults(seed, machine, network, population, history, workload.ordeal)
    try:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(PATIENCE_S):
            living = tasks.create_task(machine.run())
            await observer.process.start(_make_topics(observer, workload))
            population.start()
            await faults.run(Random(f"length {seed}").uniform(*workload.ordeal.duration_s))
            await _finish(population, history)
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


async def _make_topics(client: Client, workload: Workload) -> None:
    for topic, partition_count in workload.topics.items():
        while True:
            link = await client.link()
            try:
                made = await make_topic(link, topic, partition_count)
            except Lost:
                continue
            finally:
                link.drop()
            if made is not None:
                client.history.note(made)
            break


async def _finish(population: Population, history: History) -> None:
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
    for committed in history.all(CommittedFetched):
        counts["committed records read"] += len(committed.records)
    return counts
