"""The pages name tests and files; each of them exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_check_behind_a_promise_exists() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "GUARANTEES.md").read_text())
    assert named
    for node in named:
        file, _, test = node.partition("::")
        assert (ROOT / file).exists(), node
        assert not test or f"def {test}(" in (ROOT / file).read_text(), node


def test_every_module_that_the_architecture_names_exists() -> None:
    for module in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text()):
        assert (ROOT / "src" / "semel" / module).exists(), module
