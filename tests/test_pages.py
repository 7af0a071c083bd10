"""The pages name tests and files; each of them exists."""

import re
from pathlib import Path

import pytest

from semel.testing import Broker
from support import topics

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


@pytest.mark.parametrize("page", ["producer", "consumer"])
def test_a_snippet_that_imports_what_it_needs_runs_as_it_stands(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    snippets = [
        snippet
        for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "from semel import" in snippet and "for record in consumer:" not in snippet
    ]
    assert snippets
    with Broker() as broker:
        topics.create(broker.bootstrap_servers, "orders")
        for snippet in snippets:
            exec(snippet.replace("localhost:9092", broker.bootstrap_servers), {})
