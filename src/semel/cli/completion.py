"""`semel completion`: what a shell needs to complete commands and options."""

import argparse
import inspect
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from semel.cli.output import say


class Shell(Enum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def script(app: App, shell: Shell) -> str:
    # What `serve` takes is known to its own parser alone, which needs no other command's library.
    serve = app["serve"]
    known = serve.default_command
    serve.default_command = _serve_as_it_looks()
    try:
        return app.generate_completion(prog_name="semel", shell=shell.value)
    finally:
        serve.default_command = known


def _serve_as_it_looks() -> Any:
    from semel.cli.serve import parser

    parameters = []
    for action in parser()._actions:  # noqa: SLF001 - it has no other list of them.
        if action.help is argparse.SUPPRESS or "--help" in action.option_strings:
            continue
        is_flag = action.nargs == 0
        kind = bool if is_flag else Path if action.type is Path else str
        named = Parameter(name=action.option_strings, negative="", help=action.help or "")
        parameters.append(
            inspect.Parameter(
                action.dest,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if is_flag else None,
                annotation=Annotated[kind if is_flag else kind | None, named],
            )
        )

    def serve(**options: object) -> None:
        """Run a broker."""

    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    serve.__annotations__ = {each.name: each.annotation for each in parameters}
    return serve


def completion(shell: Shell, /) -> None:
    """Print what a shell needs to complete commands and options.

    For bash `source <(semel completion bash)`, in ~/.bashrc to have it always. For zsh the same
    with zsh, in ~/.zshrc behind compinit; for fish
    `semel completion fish > ~/.config/fish/completions/semel.fish`.
    """
    from semel.cli.app import app

    say(script(app, shell))
