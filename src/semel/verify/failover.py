"""One simulated run of several nodes on one store."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from semel.errors import MessageTooLarge
from semel.verify.checks.checker import anomalies
from semel.verify.cluster_faults import ClusterFaults
from semel.verify.history import (
    Acknowledged,
    Began,
    CommitSent,
    Committed,
    Ended,
    EndSeen,
    EpochSeen,
    Fetched,
    History,
    NotServing,
    OffsetSeen,
    Refusal,
    StableEndSeen,
)
from semel.verify.history import (
    Outcome as TransactionOutcome,
)
from semel.verify.judging.judge import judge
from semel.verify.noted import operations_of
from semel.verify.run import PATIENCE_S, Finale, Outcome, finish, make_topics
from semel.verify.workloads.client import Client, Surroundings
from semel.verify.workloads.failover import Shift, failover
from semel.verify.workloads.lanes import LANES as LANE_COUNT
from semel.verify.workloads.lanes import lanes
from semel.verify.workloads.population import Population
from semel.verify.workloads.workload import Workload
from semel.verify.world.branches import counted
from semel.verify.world.cluster import Cluster
from semel.verify.world.loop import SimulatedLoop, Trace, simulate, task_groups_in_order
from semel.verify.world.network import Network

NODE_IDS = (1, 2, 3)
BUDGET_S = 600.0


class Play(NamedTuple):
    """What is acted out."""

    workload: Callable[[Shift], Workload]
    lane_count: int
    chaos_s: tuple[float, float]
    """The least and the most."""
    pauses_s: tuple[float, ...]
    """The mean between two faults is one of these."""


FAILOVER: Final = Play(failover, 1, (20.0, 40.0), (1.0,))
LANES: Final = Play(lanes, LANE_COUNT, (15.0, 30.0), (0.7, 3.0, 4.0, 6.0))


def run_failover(seed: int) -> Outcome:
    return _play(seed, FAILOVER)


def run_lanes(seed: int) -> Outcome:
    return _play(seed, LANES)


def _play(seed: int, play: Play) -> Outcome:
    with counted() as branches, task_groups_in_order():
        outcome = simulate(seed, lambda: _run(seed, play), BUDGET_S)
    outcome.counts.update(branches)
    outcome.counts["commits over lanes"] = branches["25 committed"]
    return outcome


async def _run(seed: int, play: Play) -> Outcome:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    trace = Trace(loop)
    history = History(trace)
    network = Network(Random(f"network {seed}"), trace)
    cluster = await Cluster.create(seed, network, history, NODE_IDS, play.lane_count)
    surroundings = Surroundings(network, cluster, history)
    shift = Shift()
    workload = play.workload(shift)
    population = Population(seed, surroundings, workload.cast)
    observer = Client("observer", surroundings, seed)
    rng = Random(f"length {seed}")
    duration_s, pause_s = rng.uniform(*play.chaos_s), rng.choice(play.pauses_s)
    faults = ClusterFaults(seed, cluster, network, population, workload, history, pause_s)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await cluster.serving()
            await observer.process.start(make_topics(observer, workload))
            population.start()
            await faults.run(loop.time() + duration_s)
            shift.end()
            await finish(population, history)
            population.end()
            await Finale(observer, cluster, workload).run()
    except TimeoutError:
        history.note(NotServing(f"the run did not end within {PATIENCE_S} s"))
    for failure in population.failures():
        history.note(NotServing(failure))
    counts = _counts(cluster, faults, history)
    counts["callbacks"] = loop.callback_count
    found = anomalies(history) + cluster.bucket.violations
    found += map(str, judge(operations_of(history)).anomalies)
    cluster.bury()
    population.bury()
    observer.process.bury()
    return Outcome(seed, found, trace.fingerprint, counts)


def _counts(cluster: Cluster, faults: ClusterFaults, history: History) -> Counter[str]:
    counts = faults.counts + cluster.counts + cluster.bucket.slot_counts
    for name, count in cluster.bucket.counts.items():
        counts[f"store: {name}"] = count
    counts["requests"] = cluster.request_count
    return counts + counts_of(history)


def counts_of(history: History) -> Counter[str]:
    """What clients have seen."""
    counts: Counter[str] = Counter()
    for acknowledged in history.all(Acknowledged):
        counts["records acknowledged"] += len(acknowledged.labels)
    for fetched in history.all(Fetched):
        counts["records read"] += len(fetched.records)
    counts["transactions"] = history.count(Began)
    for ended in history.all(Ended):
        if ended.outcome is TransactionOutcome.COMMITTED:
            counts["transactions committed"] += 1
        else:
            counts["transactions aborted"] += 1
    for refused in history.all(Refusal):
        counts[f"refused with {refused.code}"] += 1
    counts["37 batch refused as too large"] = counts[f"refused with {MessageTooLarge.code}"]
    counts["commits of unknown outcome"] = len(
        {sent.attempt for sent in history.all(CommitSent)}
        - {ended.attempt for ended in history.all(Ended)}
    )
    counts["offsets committed"] = history.count(Committed)
    counts["offsets read"] = history.count(OffsetSeen)
    counts["ends read"] = history.count(EndSeen) + history.count(StableEndSeen)
    counts["leader epochs read"] = history.count(EpochSeen)
    return counts
