"""Sessions that follow each other in one process, those of others, and what is installed."""

import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from pyspark.sql.pandas.utils import require_minimum_pandas_version

from semel.errors import ConfigError
from semel.spark import registration
from semel.spark.java import find_java_home
from spark import plain_session, session_after_session
from spark.cluster import with_tests_to_import

ROOT = Path(__file__).parent.parent.parent


def test_each_session_has_the_broker_that_it_names() -> None:
    command = [sys.executable, session_after_session.__file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.split() == ["one", "two"], done.stderr


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """As in a virtual environment that is not activated: the `python3` on the path is another."""
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    # It finds none of the packages that are installed.
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    given = with_tests_to_import()
    kept = {name: value for name, value in given.items() if not name.startswith("PYSPARK_")}
    return {
        **kept,
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "JAVA_HOME": str(find_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "MASTER": "local[2]",
    }


def test_a_plain_session_is_told_which_python_has_the_package(
    tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, plain_session.__file__, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=elsewhere,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == [
        "DATA_SOURCE_NOT_FOUND",
        "call semel.spark.register(spark)",
        "out [b'once']",
        "copied [b'once']",
    ], done.stderr


def test_a_session_on_a_cluster_is_refused_where_its_python_lacks_the_package(
    elsewhere: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", elsewhere["PATH"])
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    spark = SimpleNamespace(
        sparkContext=SimpleNamespace(master="spark://there:7077", pythonExec="python3")
    )
    told = r"Spark starts 'python3', which cannot import .*\(.*No module named.*set PYSPARK_PYTHON"
    with pytest.raises(ConfigError, match=told):
        registration._choose_python(spark)  # type: ignore[arg-type]


_REGISTERED_AT_A_SERVER = """
from pyspark.sql import SparkSession
import semel.spark
spark = SparkSession.builder.remote("local[1]").getOrCreate()
try:
    semel.spark.register(spark)
except Exception as error:
    print(error)
spark.stop()
"""


def test_a_server_of_spark_connect_whose_python_lacks_the_package_is_told_so(
    tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    del elsewhere["MASTER"]
    done = subprocess.run(
        [sys.executable, "-c", _REGISTERED_AT_A_SERVER],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=elsewhere,
        cwd=tmp_path,
    )
    assert "'): set PYSPARK_PYTHON" in done.stdout, done.stdout + done.stderr


def test_the_pandas_that_is_installed_with_it_is_one_that_pyspark_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = map(Requirement, project["project"]["optional-dependencies"]["spark"])
    (pandas,) = (each for each in extra if each.name == "pandas")
    assert not pandas.specifier.contains("3.0.0")
    # Of one that it does not it warns, which fails a test.
    require_minimum_pandas_version()
