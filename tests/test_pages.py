"""The pages name tests, files, commands and code: they exist, and do what is said of them."""

import os
import re
import subprocess
import sys
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


def blocks(page: str, language: str = "") -> list[str]:
    """The snippets of a page, in this language or in none."""
    fenced = re.findall(
        r"^```(.*?)\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )
    return [content for name, content in fenced if name == language]


def shell(commands: str, servers: str) -> str:
    """What these commands print, with `semel` as it is installed here."""
    folder = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SEMEL_BOOTSTRAP_SERVERS": servers,
    }
    done = subprocess.run(
        ["bash", "-ec", commands], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_commands_of_the_readme_put_one_key_into_one_partition() -> None:
    create = re.findall(r"^semel topic create .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (python,) = (each for each in blocks("README.md", "python") if "confluent_kafka" in each)
    (commands,) = (each for each in blocks("README.md") if "semel consume" in each)
    with Broker() as broker:
        servers = broker.bootstrap_servers
        shell("\n".join(create), servers)
        exec(python.replace("127.0.0.1:9092", servers), {})
        printed = shell(commands, servers)
    found = [line.split(maxsplit=3) for line in printed.splitlines() if " 42 " in line]
    assert len({partition for partition, *_ in found}) == 1
    assert [(key, value) for _, _, key, value in found] == [
        ("42", "three apples"),
        ("42", "two pears"),
    ]
