"""The entry of `semel`: picks the command, and turns failures into a sentence and an exit code.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted, 141 nobody reads,
143 terminated.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from semel.errors import ConfigError, SemelError

if TYPE_CHECKING:
    from cyclopts import MissingArgumentError

FAILED = 1
USAGE = 2
INTERRUPTED = 130
TERMINATED = 143
PIPE_BROKEN = 141
_OWN_OPTIONS = ("--help", "-h", "--version", "-V")


def main(arguments: Sequence[str] | None = None) -> int:
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    # A broker must be up at once, and has no use for what the other commands import.
    run = _serve if tokens[:1] == ["serve"] else _dispatch
    return _guarded(run, _as_options(tokens))


def _as_options(tokens: list[str]) -> list[str]:
    """`semel help topic` and `semel version` are what people try first."""
    if tokens[:1] == ["help"]:
        return [*tokens[1:], "--help"]
    return ["--version"] if tokens == ["version"] else tokens


def _guarded(run: Callable[[list[str]], int], tokens: list[str]) -> int:
    try:
        code = run(tokens)
        sys.stdout.flush()
    except ConfigError as error:
        return _complain(error, USAGE, tokens)
    except (SemelError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_BROKEN
        return _complain(error, FAILED, tokens)
    except UnicodeEncodeError as error:
        # Python has bytes of arguments that are no text as characters that cannot be written.
        if all(each.isprintable() for each in tokens):
            raise
        return _complain(ConfigError(f"{error.object!a:.60} is not UTF-8"), USAGE, tokens)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _complain(error: Exception, code: int, tokens: list[str]) -> int:
    from semel.cli.output import complain, in_words

    # Asked of the words themselves, since they may be what is wrong.
    options = tokens[: tokens.index("--")] if "--" in tokens else tokens
    complain(in_words(error), as_json="--json" in options)
    return code


def _serve(tokens: list[str]) -> int:
    from semel.cli.serve import main as serve

    return serve(tokens[1:])


def _dispatch(tokens: list[str]) -> int:
    from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError

    from semel.cli.app import app

    if tokens and tokens[0].startswith("-") and tokens[0] not in _OWN_OPTIONS:
        raise ConfigError(
            f"{tokens[0]} stands before the command: options stand behind it, as in "
            "`semel topic list -b HOST:PORT`"
        )
    try:
        command, bound, _ = app.parse_args(tokens, print_error=False, exit_on_error=False)
    except UnusedCliTokensError as error:
        surplus = " ".join(error.unused_tokens or ())
        raise ConfigError(f"{surplus}: nothing takes this; --help shows what does") from None
    except MissingArgumentError as error:
        raise ConfigError(_missing(error, tokens)) from None
    except CycloptsError as error:
        raise ConfigError(" ".join(str(error).split())) from None
    return int(command(*bound.args, **bound.kwargs) or 0)


def _missing(error: "MissingArgumentError", tokens: list[str]) -> str:
    command = " ".join(["semel", *(error.command_chain or ())])
    names = error.argument.names if error.argument is not None else ()
    name = max(names, key=len, default="an argument")
    given = error.argument is not None and any(each in tokens for each in names)
    lacks = f"{name} has nothing behind it" if given else f"{name} is missing"
    return f"{lacks}; `{command} --help` tells what it takes"


if __name__ == "__main__":
    sys.exit(main())
