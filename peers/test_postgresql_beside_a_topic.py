"""A topic and tables of PostgreSQL have each payment once, though drivers die between the two."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from examples.paired_sinks import PAYMENTS
from peers import other_sinks
from peers.postgresql import PostgreSql
from peers.registry import ROOT


def test_a_topic_and_postgresql_have_each_payment_once(tmp_path: Path) -> None:
    path = [ROOT / "src", ROOT / "tests", ROOT, os.environ["PYTHONPATH"]]
    with PostgreSql() as server:
        place = f"host={server.folder} user=semel dbname=postgres"
        done = subprocess.run(
            [sys.executable, other_sinks.__file__, "postgresql", str(tmp_path), place],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        )
    assert done.returncode == 0, done.stderr
    paid: Counter[str] = Counter()
    for payment in PAYMENTS:
        paid[payment["account"]] += payment["cents"]
    assert json.loads(done.stdout) == {
        "ran": {"0": 3, "1": 3},
        "table": [list(each) for each in sorted(paid.items())],
        "topic": sorted([payment["account"], payment["cents"]] for payment in PAYMENTS),
    }
