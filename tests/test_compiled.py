"""What is compiled goes together: mypyc lets no interpreted class derive from a compiled one."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "semel"
NOT_NATIVE = {"NamedTuple", "Protocol", "Enum", "IntEnum", "TypedDict", "Exception"}


def compiled() -> set[str]:
    listed = re.search(r'COMPILED = """(.*?)"""', (ROOT / "setup.py").read_text(), re.DOTALL)
    assert listed is not None
    return set(listed[1].split())


@functools.cache
def nodes(module: str) -> list[ast.stmt]:
    """Of its outermost level."""
    return ast.parse((SOURCE / f"{module}.py").read_text()).body


def classes(module: str) -> Iterator[ast.ClassDef]:
    for node in nodes(module):
        if isinstance(node, ast.ClassDef):
            yield node


def bases(of: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0] for base in of.bases}


def imported(module: str) -> dict[str, str]:
    """From which module of ours each name comes."""
    return {
        alias.asname or alias.name: node.module.removeprefix("semel.").replace(".", "/")
        for node in nodes(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("semel.")
        for alias in node.names
        if node.module is not None
    }


def test_each_compiled_module_is_there() -> None:
    missing = [module for module in compiled() if not (SOURCE / f"{module}.py").exists()]
    assert not missing


def test_no_interpreted_class_derives_from_a_compiled_one() -> None:
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
