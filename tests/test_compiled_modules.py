"""What may not be in the modules that are compiled (`setup.py`)."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "semel"
WAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
NOT_NATIVE = {"NamedTuple", "Protocol", "Enum", "IntEnum", "TypedDict", "Exception"}


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


@functools.cache
def statements(module: str) -> list[ast.stmt]:
    """Of its outermost level."""
    return ast.parse((SOURCE / f"{module}.py").read_text()).body


def classes(module: str) -> Iterator[ast.ClassDef]:
    for each in statements(module):
        if isinstance(each, ast.ClassDef):
            yield each


def bases(of: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0] for base in of.bases}


def imported(module: str) -> dict[str, str]:
    """From which module of ours each name comes."""
    return {
        alias.asname or alias.name: each.module.removeprefix("semel.").replace(".", "/")
        for each in statements(module)
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith("semel.")
        for alias in each.names
    }


def test_no_interpreted_class_derives_from_a_compiled_one() -> None:
    """mypyc lets none do so, which shows when the module is imported."""
    listed = compiled()
    native = {
        (module, each.name)
        for module in listed
        for each in classes(module)
        if not bases(each) & NOT_NATIVE
    }
    assert ("journal/file/disk", "FileDevice") in native
    others = (str(path.relative_to(SOURCE).with_suffix("")) for path in SOURCE.rglob("*.py"))
    found = [
        f"{module}: {each.name}({base})"
        for module in others
        if module not in listed
        for names in [imported(module)]
        for each in classes(module)
        for base in bases(each)
        if (names.get(base), base) in native
    ]
    assert not found
