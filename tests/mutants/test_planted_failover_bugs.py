"""Each rule about slots is left out in turn; a few seeds of several nodes must notice."""

import re

import pytest

from mutants.broker_bugs import Bug
from mutants.failover_bugs import FAILOVER_BUGS
from semel.verify.failover import run_failover
from support.compiled import plain_python

SEEDS_MAX = 8

pytestmark = [pytest.mark.timeout(300), plain_python]


@pytest.mark.parametrize(
    "bug", FAILOVER_BUGS, ids=lambda bug: f"rule-{bug.rule}-{bug.plant.__name__}"
)
def test_the_simulation_notices_that(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    others: list[str] = []
    for seed in range(bug.first_seed, bug.first_seed + SEEDS_MAX):
        for anomaly in run_failover(seed).anomalies:
            if re.search(bug.symptom, anomaly):
                return
            others.append(anomaly)
    pytest.fail(f"{SEEDS_MAX} seeds did not show {bug.symptom!r}, only {others[:5]}")
