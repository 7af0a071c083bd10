"""Finding an application by name, and saying clearly what is missing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.cli.run import CannotLoad, load

SHOP = """
from semel import App
app = App()
other = App()
number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "loaded_shop.py").write_text(SHOP)
    (tmp_path / "loaded_bare.py").write_text("")
    (tmp_path / "loaded_broken.py").write_text("import loaded_nowhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("loaded_"):
            del sys.modules[name]


def test_an_application_is_found_in_the_current_folder() -> None:
    assert load("loaded_shop:app") is sys.modules["loaded_shop"].app
    assert load("loaded_shop:other") is sys.modules["loaded_shop"].other


def test_it_is_called_app_unless_told_otherwise() -> None:
    assert load("loaded_shop") is load("loaded_shop:app")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("loaded_nowhere:app", "there is no module loaded_nowhere in "),
        ("loaded_nowhere.inner:app", "there is no module loaded_nowhere in "),
        ("loaded_nowhere.py", "give it as loaded_nowhere:app"),
        ("loaded_shop:application", "module loaded_shop has no application: it has app, other"),
        ("loaded_bare:app", "module loaded_bare has no app: it has no semel.App"),
        ("loaded_shop:number", "loaded_shop:number is not a semel.App but of type int"),
        ("loaded_shop:", "is not of the form module:app"),
        (":app", "is not of the form module:app"),
    ],
)
def test_what_is_missing_is_said(name: str, sentence: str) -> None:
    with pytest.raises(CannotLoad) as caught:
        load(name)
    assert sentence in str(caught.value)


def test_a_module_that_misses_another_one_speaks_for_itself() -> None:
    with pytest.raises(ModuleNotFoundError, match="loaded_nowhere"):
        load("loaded_broken:app")
