"""The commands that pages show are taken by the program, with every option."""

import re
import shlex
from pathlib import Path

import pytest

from semel.cli import serve
from semel.cli.app import app

ROOT = Path(__file__).parent.parent
SHELL = ("", "bash", "sh", "shell")
GENERATED = {"docs/command-line.md"}
"""Which tells of each command how it is used, in words."""


def commands(page: Path) -> list[str]:
    """Those in the code of a page, each as it is typed."""
    found = []
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    for language, code in fenced:
        if language in SHELL:
            whole = code.replace("\\\n", " ")
            found += re.findall(r"(?:^|[|&;] *)(semel (?!is |on ).*?)$", whole, re.MULTILINE)
    return found


PAGES = [
    (str(page.relative_to(ROOT)), command)
    for page in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md")))
    if str(page.relative_to(ROOT)) not in GENERATED
    for command in commands(page)
]


@pytest.mark.parametrize(("page", "command"), PAGES)
def test_a_command_is_one_that_there_is(page: str, command: str) -> None:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words = list(lexer)
    until = next((i for i, word in enumerate(words) if word[0] in "|&;<>"), len(words))
    _, *tokens = words[:until]
    if tokens[0] == "serve":
        serve.parser().parse_args(tokens[1:])
    else:
        app.parse_args(tokens, print_error=False, exit_on_error=False)


def test_pages_show_commands() -> None:
    assert len(PAGES) > 50
