"""`python -m semel.verify --seeds N`: simulate, and say which seed broke which promise."""

import argparse
import logging
import sys
from collections import Counter

import structlog

from semel.verify.run import Outcome, run_seed

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
    "segments filled",
    "connections",
    "generations",
    "offsets committed",
)
ANOMALIES_SHOWN_MAX = 10


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="semel.verify", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many runs (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="this one alone")
    options = parser.parse_args(arguments)
    # The broker complains of what is done to it; that is what is meant to happen here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    totals: Counter[str] = Counter()
    failed_count = 0
    for place, seed in enumerate(seeds, 1):
        outcome = run_seed(seed)
        totals.update(outcome.counts)
        failed_count += bool(outcome.anomalies)
        _show(outcome, f"{place}/{len(seeds)} runs, {failed_count} with anomalies")
    summary = ", ".join(f"{totals[name]:,} {name}" for name in SHOWN)
    _say(f"{len(seeds)} runs, {failed_count} with anomalies: {summary}")
    return 1 if failed_count else 0


def _show(outcome: Outcome, progress: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{progress} ")
        sys.stderr.flush()
    if outcome.anomalies:
        _say(f"seed {outcome.seed}: {len(outcome.anomalies)} anomalies (--seed {outcome.seed})")
        for anomaly in outcome.anomalies[:ANOMALIES_SHOWN_MAX]:
            _say(f"  {anomaly}")


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
