"""Several real brokers on one store: whoever leads, the promises hold."""

from collections import Counter
from functools import cache

import pytest

from semel.verify.failover import run_failover
from semel.verify.run import Outcome
from support.compiled import plain_python

SEEDS = range(6)

pytestmark = pytest.mark.timeout(300)


@cache
def outcomes() -> list[Outcome]:
    return [run_failover(seed) for seed in SEEDS]


def test_no_seed_breaks_a_promise() -> None:
    broken = {outcome.seed: outcome.anomalies for outcome in outcomes() if outcome.anomalies}
    assert not broken


def test_the_same_seed_gives_the_same_run() -> None:
    again = run_failover(SEEDS[0])
    assert again.fingerprint == outcomes()[0].fingerprint
    assert again.counts == outcomes()[0].counts


@plain_python
def test_what_is_meant_to_go_wrong_does() -> None:
    totals: Counter[str] = Counter()
    for outcome in outcomes():
        totals.update(outcome.counts)
    for wanted in (
        "takeovers",
        "clean moves",
        "connections to zombies",
        "transactions committed",
        "transactions aborted",
        "offsets read",
        "leader epochs read",
        "15 own nonce",
        "15 foreign",
        "15 none, same bytes again",
        "16 void entry",
        "16 PUT passed over a void entry",
        "16 GET passed over a void entry",
        "17 fence behind a seal, same term",
        "17 fence without a seal, new term",
        "18 barrier asked",
        "18 GET found a foreign entry",
        "18 stepped down without a barrier",
        "31 fence given up",
        "31 replayed anew",
        "32 begun anew",
        "33 outage, waits anew",
        "34 read from the cache",
        "34 damaged, a miss",
        "34 dropped with its leader",
        "35 volume of a fenced leader removed",
        "35 other that is not named left alone",
        "36 opened with a clock behind the last frame",
        "37 batch refused as too large",
        "store: late",
        "store: doubled",
        "store: lost",
        "store: throttled",
        "store: unanswered",
    ):
        assert totals[wanted], f"{wanted}: never"
