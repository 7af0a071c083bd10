"""Several real brokers that lead several lanes of one store: transactions over them hold."""

from collections import Counter
from functools import cache

import pytest

from semel.verify.failover import run_lanes
from semel.verify.run import Outcome
from support.compiled import plain_python

SEEDS = range(3)

pytestmark = pytest.mark.timeout(300)


@cache
def outcomes() -> list[Outcome]:
    return [run_lanes(seed) for seed in SEEDS]


def test_no_seed_breaks_a_promise() -> None:
    broken = {outcome.seed: outcome.anomalies for outcome in outcomes() if outcome.anomalies}
    assert not broken


def test_the_same_seed_gives_the_same_run() -> None:
    again = run_lanes(SEEDS[0])
    assert again.fingerprint == outcomes()[0].fingerprint
    assert again.counts == outcomes()[0].counts


@plain_python
def test_what_is_meant_to_happen_does() -> None:
    totals: Counter[str] = Counter()
    for outcome in outcomes():
        totals.update(outcome.counts)
    for wanted in (
        "commits over lanes",
        "takeovers",
        "clean moves",
        "connections to zombies",
        "transactions aborted",
        "19 key given",
        "19 asked again",
        "19 answer after the end void",
        "20 yes, prepared now",
        "20 yes, prepared before",
        "20 no, in a later term",
        "20 no, doomed",
        "20 no, ended here",
        "20 no vote yet",
        "21 write waits for the outcome",
        "22 abort leaves what was committed",
        "23 new term aborts what is open",
        "23 new term keeps what is prepared",
        "24 outcome of what is not open here",
        "24 confirmed behind a barrier",
        "24 marker of an outsider, coordinator asked",
        "25 asked again by the next leader",
        "26 abort told",
        "26 asked while it is open",
        "27 voted down",
        "27 repeated commit hears the same",
        "28 next transaction put off",
        "28 waiting request voided",
        "29 answered when all have ended",
        "30 last stable offset withheld",
    ):
        assert totals[wanted], f"{wanted}: never"
