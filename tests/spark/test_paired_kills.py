"""A driver killed between its sinks: the next one leaves each payment once in all of them."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from examples import paired_sinks

from semel.spark import Session
from spark import paired_victim
from spark.cluster import with_tests_to_import
from support import topics

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.chaos
@pytest.mark.parametrize("step", [0, 1, 2, 3])
@pytest.mark.timeout(600)
def test_each_sink_has_each_payment_once_wherever_the_driver_is_killed(
    spark: Session, name: str, tmp_path: Path, step: int
) -> None:
    servers = spark.bootstrap_servers
    values = [json.dumps(payment).encode() for payment in paired_sinks.PAYMENTS]
    topics.fill(servers, f"{name}-in", values)
    environment = with_tests_to_import()
    environment["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    command = [sys.executable, paired_victim.__file__, servers, name, str(tmp_path), "1", str(step)]
    codes = [
        subprocess.run(command, env=environment, capture_output=True, check=False).returncode
        for _ in range(2)
    ]
    assert codes == [-signal.SIGKILL, 0]
    paid: Counter[str] = Counter()
    for payment in paired_sinks.PAYMENTS:
        paid[payment["account"]] += payment["cents"]
    assert paired_sinks.found(spark, name, tmp_path) == (paid, paid, paid)
