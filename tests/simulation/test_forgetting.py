"""Some runs of the real broker with topics that do not keep everything."""

from collections import Counter

import pytest

from semel.verify.run import Outcome, run_seed
from semel.verify.workloads.workload import FORGETTING

SEED_COUNT = 10

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_seed(seed, FORGETTING) for seed in range(SEED_COUNT)]


def test_no_seed_forgets_what_is_to_be_kept_or_keeps_what_is_gone(outcomes: list[Outcome]) -> None:
    broken = {outcome.seed: outcome.anomalies for outcome in outcomes if outcome.anomalies}
    assert not broken


def test_the_topics_met_what_they_are_meant_to_meet(outcomes: list[Outcome]) -> None:
    met: Counter[str] = Counter()
    for outcome in outcomes:
        met.update(outcome.counts)
    least = {
        "volumes made": 2,
        "records forgotten": 500,
        "records replaced": 100,
        "transactions committed": 10,
        "transactions aborted": 4,
        "died: killed": 1,
        "died: power loss": 1,
        "deaths while settling": 0.5,
        "hangs while settling": 0.5,
    }
    missed = {name: met[name] for name, count in least.items() if met[name] < count * len(outcomes)}
    assert not missed


def test_a_seed_of_forgetting_gives_one_history() -> None:
    first, second = (run_seed(5, FORGETTING).fingerprint for _ in range(2))
    assert first == second
