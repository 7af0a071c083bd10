"""Pipelines on older PySparks, and beside tables of lakes, whose jars follow Spark later."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples.paired_sinks import PAYMENTS
from peers import older_spark, other_sinks
from peers.registry import ROOT, jars, package

NEEDS = "option maxOffsetsPerTrigger needs PySpark 4.2: "


def run(pyspark: str, program: str, *arguments: str) -> str:
    """What it says on the newest PySpark of this series."""
    path = [package(f"pyspark=={pyspark}.*"), ROOT / "src", ROOT / "tests", ROOT]
    known = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    done = subprocess.run(
        [sys.executable, program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *known])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("pyspark", ["4.0", "4.1", "4.2"])
def test_sources_and_sinks_work_on_an_older_pyspark(pyspark: str, tmp_path: Path) -> None:
    *found, limits = run(pyspark, older_spark.__file__, str(tmp_path)).splitlines()
    assert found == [
        f"pyspark {pyspark}",
        "default each row once semel[orders] 40",
        "volume each row once semel[orders] 40",
        "batch each row once",
        "remade 10 7 0" if pyspark == "4.2" else "remade 10 0 7",
    ]
    assert limits.startswith("limits 4 batches" if pyspark == "4.2" else f"limits {NEEDS}")


@pytest.mark.parametrize(("kind", "pyspark"), [("delta", "4.2"), ("iceberg", "4.1")])
def test_a_topic_and_a_table_of_a_lake_have_each_row_once(
    kind: str, pyspark: str, tmp_path: Path
) -> None:
    files = [str(file) for file in sorted(jars(ROOT / "peers" / kind).glob("*.jar"))]
    needed = [file for file in files if not Path(file).name.startswith("scala-")]
    said = run(pyspark, other_sinks.__file__, kind, str(tmp_path), ",".join(needed))
    written = json.loads(said)
    paid = sorted([payment["account"], payment["cents"]] for payment in PAYMENTS)
    assert written == {"ran": {"0": 3, "1": 3}, "table": paid, "topic": paid}
