"""One simulated run of several workers that lead the lanes of one machine's disks."""

import asyncio
from collections import Counter
from random import Random
from typing import Final

from semel.verify.checks.checker import anomalies
from semel.verify.failover import counts_of
from semel.verify.history import History, NotServing
from semel.verify.judging.judge import judge
from semel.verify.noted import operations_of
from semel.verify.run import PATIENCE_S, Finale, Outcome, finish, make_topics
from semel.verify.worker_faults import WorkerFaults
from semel.verify.workloads.client import Client, Surroundings
from semel.verify.workloads.failover import Shift
from semel.verify.workloads.lanes import LANES, lanes
from semel.verify.workloads.population import Population
from semel.verify.world.branches import counted
from semel.verify.world.loop import SimulatedLoop, Trace, simulate, task_groups_in_order
from semel.verify.world.network import Network
from semel.verify.world.workers import Workers

BUDGET_S: Final = 600.0
CHAOS_S: Final = (8.0, 30.0)
PAUSES_S: Final = (0.15, 0.5, 1.5, 3.0)
WORKER_COUNTS: Final = (2, 3, 4)


def run_workers(seed: int) -> Outcome:
    with counted() as branches, task_groups_in_order():
        outcome = simulate(seed, lambda: _run(seed), BUDGET_S)
    outcome.counts.update(branches)
    outcome.counts["commits over lanes"] = branches["25 committed"]
    return outcome


async def _run(seed: int) -> Outcome:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    trace = Trace(loop)
    history = History(trace)
    network = Network(Random(f"network {seed}"), trace)
    rng = Random(f"length {seed}")
    workers = Workers(seed, network, history, rng.choice(WORKER_COUNTS), LANES)
    surroundings = Surroundings(network, workers, history)
    shift = Shift()
    workload = lanes(shift)
    population = Population(seed, surroundings, workload.cast)
    observer = Client("observer", surroundings, seed)
    duration_s, pause_s = rng.uniform(*CHAOS_S), rng.choice(PAUSES_S)
    faults = WorkerFaults(seed, workers, network, population, history, pause_s)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await workers.serving()
            await observer.process.start(make_topics(observer, workload))
            population.start()
            await faults.run(loop.time() + duration_s)
            shift.end()
            await finish(population, history)
            population.end()
            await Finale(observer, workers, workload).run()
    except TimeoutError:
        history.note(NotServing(f"the run did not end within {PATIENCE_S} s"))
    for failure in population.failures():
        history.note(NotServing(failure))
    counts: Counter[str] = counts_of(history) + faults.counts + workers.counts
    counts["requests"] = workers.request_count
    counts["callbacks"] = loop.callback_count
    found = anomalies(history)
    found += map(str, judge(operations_of(history)).anomalies)
    workers.bury()
    population.bury()
    observer.process.bury()
    return Outcome(seed, found, trace.fingerprint, counts)
