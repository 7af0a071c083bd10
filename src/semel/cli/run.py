"""`semel run`: run the listeners of an application, and show how they get on."""

import asyncio
import importlib
import sys
import sysconfig
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from semel.app import status
from semel.app.application import App
from semel.app.failure import ListenerFailed, in_words
from semel.app.running import RunningApp, run_until_told
from semel.cli import output
from semel.cli.arguments import DEFAULT_CLUSTER, ClusterArguments
from semel.cli.control import ATTRIBUTE_DEFAULT, controlled, full_name
from semel.cli.live import shown_log, watcher
from semel.cli.main import FAILED
from semel.cli.output import complain, note, note_json
from semel.errors import ConfigError, SemelError
from semel.status_server import served

_LIBRARY = (str(Path(sysconfig.get_path("stdlib")) / "importlib"),)


class CannotLoad(ConfigError):
    """There is no such application; the message says what is missing."""


def load(name: str) -> App:
    """The application of this name, from the current folder or from what is installed."""
    module_name, colon, attribute = name.partition(":")
    if not module_name or (colon and not attribute):
        raise CannotLoad(f"{name!r} is not of the form module:app")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A module that is there and misses another one is told of by its own traceback.
        if error.name is None or not _is_part_of(error.name, module_name):
            raise
        hint = f": give it as {module_name[:-3]}:app" if module_name.endswith(".py") else ""
        raise CannotLoad(f"there is no module {error.name} in {folder}{hint}") from None
    found = vars(module).get(attribute or ATTRIBUTE_DEFAULT)
    if isinstance(found, App):
        return found
    raise CannotLoad(_missing(module_name, attribute or ATTRIBUTE_DEFAULT, vars(module)))


def _is_part_of(missing: str, module_name: str) -> bool:
    return module_name == missing or module_name.startswith(missing + ".")


def _missing(module_name: str, attribute: str, names: dict[str, object]) -> str:
    if attribute in names:
        kind = type(names[attribute]).__name__
        return f"{module_name}:{attribute} is not a semel.App but of type {kind}"
    apps = [name for name, value in names.items() if isinstance(value, App)]
    there = f"it has {', '.join(apps)}" if apps else "it has no semel.App"
    return f"module {module_name} has no {attribute}: {there}"


def run(
    application: str,
    /,
    *,
    cluster: ClusterArguments = DEFAULT_CLUSTER,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print a line of JSON every second.")
    ] = False,
    quiet: Annotated[
        bool,
        Parameter(name=["-q", "--quiet"], negative="", help="Show nothing but what goes wrong."),
    ] = False,
    metrics: Annotated[
        str | None,
        Parameter(help="HOST:PORT: metrics for Prometheus at /metrics; /healthz and /readyz."),
    ] = None,
) -> int:
    """Run an application, given as module:app, until it is told to stop.

    The module alone is enough for one that is called `app` there.

    Brokers, TLS and SASL that are given here take the place of those that the application names.

    `semel app pause` pauses its listeners. SIGTERM and Ctrl-C let it finish its transactions and
    leave its groups; a second one ends it at once.
    """
    if as_json and quiet:
        raise ConfigError("--json and --quiet exclude each other")
    try:
        app = load(application)
    except CannotLoad:
        raise
    except SemelError as error:
        raise CannotLoad(f"{_place_of(error)}{output.in_words(error)}") from None
    except Exception as error:  # noqa: BLE001 - whatever a module does when it is imported.
        sentence = f"{application} cannot be imported: {type(error).__name__}: {in_words(error)}"
        return _fail(sentence, error, as_json=as_json)

    def notify(sentence: str) -> None:
        if as_json:
            note_json({"level": "info", "message": sentence})
        else:
            note(sentence)

    try:
        with shown_log(as_json=as_json, quiet=quiet):
            watch = watcher(as_json=as_json, quiet=quiet)
            seen = _seen(full_name(application), app, _running(app, cluster), metrics, notify)
            asyncio.run(run_until_told(seen, watch, notify))
    except ListenerFailed as failure:
        reason = failure.__cause__
        is_of_application = failure.is_of_function or not isinstance(reason, SemelError)
        return _fail(str(failure), reason if is_of_application else None, as_json=as_json)
    return 0


@asynccontextmanager
async def _seen(
    name: str,
    app: App,
    running: AbstractAsyncContextManager[RunningApp],
    metrics: str | None,
    notify: Callable[[str], None],
) -> AsyncIterator[RunningApp]:
    """With what others look at from outside, which is there before it begins to work."""
    run: RunningApp | None = None
    async with AsyncExitStack() as stack:
        if metrics is not None:
            pages = status.pages(lambda: run.counts() if run is not None else {})
            address = await stack.enter_async_context(served("--metrics", metrics, pages))
            notify(f"metrics are at {address}/metrics")
        run = await stack.enter_async_context(running)
        try:
            await stack.enter_async_context(controlled(name, app, run))
        except (ConfigError, OSError) as error:
            notify(f"`semel app` cannot reach it: {output.in_words(error)}")
        yield run


def _running(app: App, cluster: ClusterArguments) -> AbstractAsyncContextManager[RunningApp]:
    if app.has_brokers and not cluster.are_told:
        return app.running()
    connection = cluster.connection
    security = connection.security if connection.names_security else None
    return app.running(connection.bootstrap_servers, security=security)


def _fail(sentence: str, error: BaseException | None, *, as_json: bool) -> int:
    """With the traceback of what the application's own code has raised."""
    complain(sentence, as_json=as_json, trace="" if error is None else _traceback(error))
    return FAILED


def _place_of(error: BaseException) -> str:
    """Where the application's own code had it raised."""
    own = [
        each for each in traceback.extract_tb(error.__traceback__) if not _is_ours(each.filename)
    ]
    return f"{own[-1].filename}: line {own[-1].lineno}: " if own else ""


def _traceback(error: BaseException) -> str:
    """Of the application's own code: how it was called is not what its author looks for."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return "".join(traceback.format_exception(error.with_traceback(trace)))


def _is_ours(filename: str) -> bool:
    return filename.startswith((str(Path(__file__).parent.parent), "<frozen importlib", *_LIBRARY))
