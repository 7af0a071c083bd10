"""What may not be in the modules that are compiled (`setup.py`)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)


def compiled() -> list[str]:
    for each in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "COMPILED":
            names: str = ast.literal_eval(each.value)
            return names.split()
    raise LookupError("setup.py names no modules")


def handling(tree: ast.AST) -> Iterator[ast.stmt]:
    """What runs while an error may be on its way."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Try):
            yield from each.finalbody
            for handler in each.handlers:
                yield from handler.body


def lines_that_wait(source: str) -> list[int]:
    return [
        each.lineno
        for statement in handling(ast.parse(source))
        for each in ast.walk(statement)
        if isinstance(each, WAITS)
    ]


@pytest.mark.parametrize("module", compiled())
def test_nothing_is_waited_for_while_an_error_is_handled(module: str) -> None:
    assert lines_that_wait((ROOT / "src" / "semel" / f"{module}.py").read_text()) == []


@pytest.mark.parametrize("part", ["except OSError", "finally"])
def test_a_wait_is_found(part: str) -> None:
    source = f"async def wait():\n    try:\n        await a\n    {part}:\n        await b\n"
    assert lines_that_wait(source) == [5]
