"""What properties draw: the same on every run, and a failure of new cases can be repeated."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

DRAWING = """
{imports}
import conftest
from hypothesis import given, strategies as st

@given(st.lists(st.integers() | st.text() | st.sets(st.text())))
def draw(values):
    print(values)

draw()
"""

PROPERTY = """
from hypothesis import given, strategies as st

@given(st.integers(0, 2**40), st.binary())
def test_numbers_are_small(number, noise):
    assert {held}
"""


def drawn(imports: str) -> str:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-c", DRAWING.format(imports=imports)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_every_run_draws_the_same_whatever_was_imported_before() -> None:
    first = drawn("")
    assert len(first.splitlines()) >= 100
    assert drawn("import semel.broker.main, semel.wire.apis") == first


def fuzzed(tests: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "fuzz.py", "--examples", "50", *options, tests],
        env={**os.environ, "WORKERS": "0"},
        check=False,
        capture_output=True,
        text=True,
    )


def written(folder: Path, held: str) -> Path:
    """A folder of tests that draws its cases as ours does."""
    (folder / "conftest.py").write_text("from support import drawing\n")
    (folder / "test_property.py").write_text(PROPERTY.format(held=held))
    return folder


def blamed(output: str) -> list[str]:
    """The case that failed, as it was drawn and made small, and the blob that gives it again."""
    return re.findall(r"(?:number|noise)=.*|@reproduce_failure.*", output)


def test_a_failure_of_new_cases_comes_back_by_the_command_that_was_printed(tmp_path: Path) -> None:
    tests = written(tmp_path, "number < 1000")
    failed = fuzzed(tests)
    assert failed.returncode == 1, failed
    assert blamed(failed.stdout)
    repeat = re.search(r"make fuzz SEED=(\d+) EXAMPLES=50$", failed.stdout, re.MULTILINE)
    assert repeat is not None
    again = fuzzed(tests, "--seed", repeat[1])
    assert again.returncode == 1
    assert blamed(again.stdout) == blamed(failed.stdout)


def test_properties_that_hold_are_drawn_until_the_time_is_over(tmp_path: Path) -> None:
    held = fuzzed(written(tmp_path, "number >= 0"), "--minutes", "0")
    assert held.returncode == 0, held
    assert "every property held" in held.stdout
