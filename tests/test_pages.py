"""The pages are true: the tests and commands that they name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED_TEST = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(test_\w+))?`")
MAKE_TARGET = re.compile(r"^make ([a-z-]+)|`make ([a-z-]+)", re.MULTILINE)
PAGES = ("README.md", "GUARANTEES.md", "ARCHITECTURE.md")


@pytest.mark.parametrize(("path", "name"), NAMED_TEST.findall((ROOT / "GUARANTEES.md").read_text()))
def test_a_test_that_guarantees_name_exists(path: str, name: str) -> None:
    target = ROOT / path
    assert target.exists(), f"{path} does not exist"
    if name:
        assert f"def {name}(" in target.read_text(), f"{path} has no {name}"


@pytest.mark.parametrize("page", PAGES)
def test_a_command_that_a_page_names_exists(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for found in MAKE_TARGET.findall((ROOT / page).read_text()):
        target = found[0] or found[1]
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page}: no `make {target}`"


def test_files_that_the_architecture_names_exist() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert named
    for path in named:
        assert (ROOT / "src" / "semel" / path).exists(), f"ARCHITECTURE.md: no {path}"
