"""Some runs of the real broker under transactional clients that die, doubt and return."""

from collections import Counter

import pytest

from semel.verify.run import Outcome, run_seed
from semel.verify.workloads.workload import TRANSACTIONS

SEED_COUNT = 20

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_seed(seed, TRANSACTIONS) for seed in range(SEED_COUNT)]


def test_no_seed_breaks_a_promise_of_transactions(outcomes: list[Outcome]) -> None:
    broken = {outcome.seed: outcome.anomalies for outcome in outcomes if outcome.anomalies}
    assert not broken


def test_the_transactions_met_what_they_are_meant_to_meet(outcomes: list[Outcome]) -> None:
    met: Counter[str] = Counter()
    for outcome in outcomes:
        met.update(outcome.counts)
    least = {
        "transactions committed": 10,
        "transactions aborted": 3,
        "commits of unknown outcome": 0.2,
        "committed records read": 300,
        "rivals": 0.2,
        "dead clients": 0.2,
        "died: killed": 1,
        "died: power loss": 1.5,
        "connections late": 10,
    }
    missed = {name: met[name] for name, count in least.items() if met[name] < count * len(outcomes)}
    assert not missed


def test_a_seed_of_transactions_gives_one_history() -> None:
    first, second = (run_seed(5, TRANSACTIONS).fingerprint for _ in range(2))
    assert first == second
