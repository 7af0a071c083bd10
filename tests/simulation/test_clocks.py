"""Some dozen runs of the real broker whose clock is set and whose process is stopped meanwhile."""

from collections import Counter

import pytest

from semel.verify.run import Outcome, run_seed
from semel.verify.workloads.workload import CLOCKS

SEED_COUNT = 30

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_seed(seed, CLOCKS) for seed in range(SEED_COUNT)]


def test_no_seed_breaks_a_promise_whatever_the_clock_does(outcomes: list[Outcome]) -> None:
    broken = {outcome.seed: outcome.anomalies for outcome in outcomes if outcome.anomalies}
    assert not broken


def test_the_clocks_met_what_they_are_meant_to_meet(outcomes: list[Outcome]) -> None:
    met: Counter[str] = Counter()
    for outcome in outcomes:
        met.update(outcome.counts)
    least = {
        "clock jumps": 2,
        "freezes": 0.3,
        "duplicates answered": 10,
        "heartbeats": 10,
        "transactions committed": 3,
        "died: killed": 1,
        "died: stopped": 0.5,
        "died: power loss": 0.5,
    }
    missed = {name: met[name] for name, count in least.items() if met[name] < count * len(outcomes)}
    assert not missed


def test_a_seed_of_clocks_gives_one_history() -> None:
    first, second = (run_seed(5, CLOCKS).fingerprint for _ in range(2))
    assert first == second
