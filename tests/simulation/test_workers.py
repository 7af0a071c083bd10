"""Several real workers on the disks of one machine: transactions over their lanes hold."""

from collections import Counter
from functools import cache

import pytest

from semel.verify.run import Outcome
from semel.verify.workers import run_workers
from support.compiled import plain_python

SEEDS = range(7)

pytestmark = pytest.mark.timeout(300)


@cache
def outcomes() -> list[Outcome]:
    return [run_workers(seed) for seed in SEEDS]


def test_no_seed_breaks_a_promise() -> None:
    broken = {outcome.seed: outcome.anomalies for outcome in outcomes() if outcome.anomalies}
    assert not broken


def test_the_same_seed_gives_the_same_run() -> None:
    again = run_workers(SEEDS[0])
    assert again.fingerprint == outcomes()[0].fingerprint
    assert again.counts == outcomes()[0].counts


@plain_python
def test_what_is_meant_to_happen_does() -> None:
    totals: Counter[str] = Counter()
    for outcome in outcomes():
        totals.update(outcome.counts)
    for wanted in (
        "commits over lanes",
        "died: killed",
        "died: power loss",
        "died: I/O error",
        "power losses of one lane",
        "transactions aborted",
        "19 asked again",
        "19 two terms, doomed",
        "20 yes, prepared before",
        "20 no, in a later term",
        "20 no, doomed",
        "21 write waits for the outcome",
        "22 yes, committed before",
        "23 new term aborts what is open",
        "23 new term keeps what is prepared",
        "24 confirmed behind a barrier",
        "25 asked again by the next leader",
        "26 unknown, so aborted",
        "27 voted down",
        "28 waiting request voided",
        "29 answered when all have ended",
        "30 last stable offset withheld",
    ):
        assert totals[wanted], f"{wanted}: never"
