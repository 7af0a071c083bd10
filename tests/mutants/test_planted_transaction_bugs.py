"""Each rule about transactions is left out in turn; the simulation must notice in a few seeds."""

import re

import pytest

from mutants.broker_bugs import Bug
from mutants.transaction_bugs import TRANSACTION_BUGS
from semel.verify.run import run_seed
from semel.verify.workloads.workload import TRANSACTIONS

SEEDS_MAX = 12

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    "bug", TRANSACTION_BUGS, ids=lambda bug: f"rule-{bug.rule}-{bug.plant.__name__}"
)
def test_the_simulation_notices_that(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    others: list[str] = []
    for seed in range(bug.first_seed, bug.first_seed + SEEDS_MAX):
        for anomaly in run_seed(seed, TRANSACTIONS).anomalies:
            if re.search(bug.symptom, anomaly):
                return
            others.append(anomaly)
    pytest.fail(f"{SEEDS_MAX} seeds did not show {bug.symptom!r}, only {others[:5]}")
