"""A shell completes commands, options and their values, those of `serve` too."""

import subprocess
from pathlib import Path

import pytest

from semel.cli.app import app
from support.command_line import Run


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("semel t", {"topic", "txn"}),
        ("semel topic cr", {"create"}),
        ("semel serve --no", {"--node-id"}),
        ("semel produce orders -z z", {"zstd"}),
        ("semel group off", {"offset-delete"}),
    ],
)
def test_bash_completes(run: Run, tmp_path: Path, words: str, completed: set[str]) -> None:
    known = app["serve"].default_command
    code, script, _ = run("completion", "bash")
    assert code == 0
    assert app["serve"].default_command is known
    file = tmp_path / "completion"
    file.write_text(script)
    asked = (
        f"source {file}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _semel;"
        ' echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) == completed


def test_there_is_one_for_zsh_and_fish(run: Run) -> None:
    for shell, mark in (("zsh", "#compdef semel"), ("fish", "complete -c semel")):
        code, out, _ = run("completion", shell)
        assert code == 0
        assert mark in out
    assert run("completion", "tcsh")[0] == 2
