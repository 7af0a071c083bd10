"""Some dozen runs of the real broker, each with other clients, delays and deaths."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from semel.verify.run import Outcome, run_seed

SEED_COUNT = 60

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_seed(seed) for seed in range(SEED_COUNT)]


def test_no_seed_breaks_a_promise(outcomes: list[Outcome]) -> None:
    broken = {outcome.seed: outcome.anomalies for outcome in outcomes if outcome.anomalies}
    assert not broken


def test_the_runs_met_what_they_are_meant_to_meet(outcomes: list[Outcome]) -> None:
    met: Counter[str] = Counter()
    for outcome in outcomes:
        met.update(outcome.counts)
    least = {
        "requests": 300,
        "records acknowledged": 200,
        "records read": 300,
        "duplicates answered": 20,
        "died: killed": 1.2,
        "died: power loss": 2,
        "died: I/O error": 0.3,
        "died: stopped": 0.5,
        "full disks": 0.2,
        "segments filled": 0.7,
        "connections late": 10,
        "connections silent": 0.2,
        "generations": 2,
        "offsets committed": 10,
        "topics made": 5,
    }
    missed = {name: met[name] for name, count in least.items() if met[name] < count * len(outcomes)}
    assert not missed


def test_a_seed_gives_one_history_and_another_seed_another() -> None:
    fingerprints = [run_seed(seed).fingerprint for seed in (1, 2, 1, 2)]
    assert fingerprints[:2] == fingerprints[2:]
    assert fingerprints[0] != fingerprints[1]


def test_a_seed_gives_the_same_history_in_another_process() -> None:
    """Sets and dictionaries of another process have their strings in another order."""
    script = "from semel.verify.run import run_seed; print(run_seed(3).fingerprint)"
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == run_seed(3).fingerprint
