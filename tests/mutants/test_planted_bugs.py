"""Each rule of the law is left out in turn; the simulation must notice within a few seeds."""

import re

import pytest

from mutants.broker_bugs import BUGS, Bug
from semel.verify.run import run_seed

SEEDS_MAX = 40

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"rule-{bug.rule}-{bug.plant.__name__}")
def test_the_simulation_notices_that(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    others: list[str] = []
    for seed in range(bug.first_seed, bug.first_seed + SEEDS_MAX):
        for anomaly in run_seed(seed).anomalies:
            if re.search(bug.symptom, anomaly):
                return
            others.append(anomaly)
    pytest.fail(f"{SEEDS_MAX} seeds did not show {bug.symptom!r}, only {others[:5]}")
