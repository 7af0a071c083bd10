"""Each rule about forgetting is left out in turn; the simulation must notice in a few seeds."""

import re

import pytest

from mutants.broker_bugs import Bug
from mutants.forgetting_bugs import FORGETTING_BUGS
from semel.verify.run import run_seed
from semel.verify.workloads.workload import FORGETTING

SEEDS_MAX = 12

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("bug", FORGETTING_BUGS, ids=lambda bug: bug.plant.__name__)
def test_the_simulation_notices_that(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    others: list[str] = []
    for seed in range(bug.first_seed, bug.first_seed + SEEDS_MAX):
        for anomaly in run_seed(seed, FORGETTING).anomalies:
            if re.search(bug.symptom, anomaly):
                return
            others.append(anomaly)
    pytest.fail(f"{SEEDS_MAX} seeds did not show {bug.symptom!r}, only {others[:5]}")
