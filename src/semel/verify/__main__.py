"""Simulate, and say which seed broke which promise; or judge what clients of a cluster noted."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from semel.broker import log
from semel.spelling import noun
from semel.verify.failover import run_failover, run_lanes
from semel.verify.judging import operations
from semel.verify.judging.judge import judge
from semel.verify.run import Outcome, run_seed
from semel.verify.workers import run_workers
from semel.verify.workloads.workload import CLOCKS, FORGETTING, LOG, TRANSACTIONS
from semel.verify.world.branches import RULES
from semel.verify.world.lane_branches import RULES_OF_LANES

SHOWN = (
    "requests",
    "records acknowledged",
    "records read",
    "duplicates answered",
    "died: killed",
    "died: power loss",
    "died: I/O error",
    "died: stopped",
    "full disks",
    "clock jumps",
    "freezes",
    "segments filled",
    "volumes made",
    "records forgotten",
    "records replaced",
    "connections",
    "generations",
    "offsets committed",
    "transactions committed",
    "transactions aborted",
    "commits of unknown outcome",
    "committed records read",
    "commits over lanes",
    "takeovers",
    "clean moves",
    "power losses of one lane",
    "connections to zombies",
    "offsets read",
    "ends read",
    "leader epochs read",
)
ANOMALIES_SHOWN_MAX = 10
RUNS: dict[str, Callable[[int], Outcome]] = {
    "log": partial(run_seed, workload=LOG),
    "transactions": partial(run_seed, workload=TRANSACTIONS),
    "clocks": partial(run_seed, workload=CLOCKS),
    "forgetting": partial(run_seed, workload=FORGETTING),
    "failover": run_failover,
    "lanes": run_lanes,
    "workers": run_workers,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="semel.verify", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many runs (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument(
        "--workload", choices=RUNS, help="what the clients do (default: one after the other)"
    )
    parser.add_argument(
        "--check", type=Path, nargs="+", metavar="FILE", help="judge what clients have noted there"
    )
    options = parser.parse_args(arguments)
    if options.check:
        return _check(options.check)
    # The broker complains of what is done to it; that is what is meant to happen here.
    log.configure("error", "text")
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    workloads = [options.workload] if options.workload else list(RUNS)
    return 1 if sum(_simulate(name, seeds) for name in workloads) else 0


def _check(paths: list[Path]) -> int:
    """0: the promises held. 1: they were broken. 2: that cannot be told."""
    judgement = judge(operations.read(paths))
    for line in judgement.lines():
        _say(line)
    return judgement.verdict.value


def _simulate(name: str, seeds: range) -> int:
    """How many of the seeds broke a promise."""
    totals: Counter[str] = Counter()
    failed_count = 0
    for place, seed in enumerate(seeds, 1):
        outcome = RUNS[name](seed)
        totals.update(outcome.counts)
        failed_count += bool(outcome.anomalies)
        _show(name, outcome, f"{name}: {place}/{len(seeds)} runs, {failed_count} with anomalies")
    summary = ", ".join(f"{totals[each]:,} {each}" for each in SHOWN if totals[each])
    _say(f"{name}: {len(seeds)} runs, {failed_count} with anomalies: {summary}")
    if name == "failover":
        _show_branches(RULES, totals)
    if name == "lanes":
        _show_branches(RULES | RULES_OF_LANES, totals)
    if name == "workers":
        _show_branches(RULES_OF_LANES, totals)
    return failed_count


def _show_branches(rules: Mapping[str, Sequence[str]], totals: Counter[str]) -> None:
    """How often each branch of each rule was taken."""
    for rule, branches in rules.items():
        taken = ", ".join(f"{branch} {totals[f'{rule} {branch}']:,}" for branch in branches)
        _say(f"  rule {rule}: {taken or 'nothing to count yet'}")


def _show(name: str, outcome: Outcome, progress: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{progress} ")
        sys.stderr.flush()
    if outcome.anomalies:
        again = f"--workload {name} --seed {outcome.seed}"
        _say(
            f"seed {outcome.seed}: {len(outcome.anomalies)} "
            f"{noun(len(outcome.anomalies), 'anomaly', 'anomalies')} ({again})"
        )
        for anomaly in outcome.anomalies[:ANOMALIES_SHOWN_MAX]:
            _say(f"  {anomaly}")


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
