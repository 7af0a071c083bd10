"""`semel app`: the applications that run on this machine; pausing and resuming their listeners.

Each `semel run` has a socket in a folder of its user's, named after application and process.
"""

import asyncio
import json
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from semel.app.application import App as Application
from semel.app.running import RunningApp
from semel.cli.live import lines_of
from semel.cli.output import say_json, say_table
from semel.errors import ConfigError, SemelError
from semel.spelling import hint_at
from semel.status_server import Page, Pages, json_page, served_at_socket

app = App(name="app", help="List applications that run on this machine; pause their listeners.")

ATTRIBUTE_DEFAULT = "app"
_PATIENCE_S = 10.0
_NAME_MAX = 40
"""Characters: the path of a socket has little more than a hundred."""

AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]
_Application = Annotated[str, Parameter(help="As `semel run` was told: module:app.")]
_Listeners = Annotated[str, Parameter(help="Only these listeners; without any, all.")]


class NotRunning(SemelError):
    """No such application runs on this machine."""


def full_name(application: str) -> str:
    """module:app, also of a module alone."""
    return application if ":" in application else f"{application}:{ATTRIBUTE_DEFAULT}"


# In the process that runs an application


@asynccontextmanager
async def controlled(name: str, application: Application, run: RunningApp) -> AsyncIterator[None]:
    """Answers `semel app` for the length of the block."""
    folder = _folder(make=True)
    path = folder / f"{_safe(name)}.{os.getpid()}"
    path.unlink(missing_ok=True)
    try:
        async with served_at_socket(path, _pages(name, application, run)):
            yield
    finally:
        path.unlink(missing_ok=True)


def _pages(name: str, application: Application, run: RunningApp) -> Pages:
    def listed(body: bytes) -> Page:
        counts = run.counts()
        lines = lines_of(counts, dict.fromkeys(counts, 0))
        return json_page({"application": name, "listeners": [line._asdict() for line in lines]})

    def changed(change: Callable[..., None]) -> Callable[[bytes], Page]:
        def answer(body: bytes) -> Page:
            try:
                change(*json.loads(body))
            except ConfigError as error:
                return json_page({"error": str(error)}, HTTPStatus.BAD_REQUEST)
            return json_page({"paused": sorted(application.paused)})

        return answer

    return {
        ("GET", "/listeners"): listed,
        ("POST", "/pause"): changed(application.pause),
        ("POST", "/resume"): changed(application.resume),
    }


def _folder(*, make: bool = False) -> Path:
    """Which nobody else may write to."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    folder = (
        Path(given) / "semel" if given else Path(tempfile.gettempdir()) / f"semel-{os.getuid()}"
    )
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.exists():
        status = folder.lstat()
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigError(f"{folder} is open to others: it has to be yours, with mode 700")
    return folder


def _safe(name: str) -> str:
    return "".join(each if each.isalnum() or each in "._:-" else "_" for each in name)[:_NAME_MAX]


# In the process that asks


class Running(NamedTuple):
    application: str
    process_id: int
    socket: Path
    listeners: list[dict[str, Any]]


@app.command(name="list")
def list_applications(*, as_json: AsJson = False) -> int:
    """List the applications that run on this machine, and how their listeners get on."""
    found = asyncio.run(_running())
    if as_json:
        say_json(
            [
                {
                    "application": each.application,
                    "process_id": each.process_id,
                    "listeners": each.listeners,
                }
                for each in found
            ]
        )
        return 0
    rows = [
        (
            each.application,
            each.process_id,
            line["listener"],
            line["state"],
            line["records"],
            line["lag"],
            len(line["partitions"]),
        )
        for each in found
        for line in each.listeners
    ]
    columns = "APPLICATION PROCESS LISTENER STATE RECORDS LAG PARTITIONS"
    say_table(columns.split(), rows)
    return 0


@app.command
def pause(application: _Application, /, *listeners: _Listeners, as_json: AsJson = False) -> int:
    """Let listeners take no further records, in all processes of an application on this machine.

    What is in work is finished. They stay in their groups and keep their partitions, those that
    they are given meanwhile too, until `semel app resume` or the end of the process.
    """
    return asyncio.run(_change("pause", application, listeners, as_json=as_json))


@app.command
def resume(application: _Application, /, *listeners: _Listeners, as_json: AsJson = False) -> int:
    """Let listeners that were paused take records again."""
    return asyncio.run(_change("resume", application, listeners, as_json=as_json))


async def _change(deed: str, application: str, listeners: tuple[str, ...], *, as_json: bool) -> int:
    everything, application = await _running(), full_name(application)
    found = [each for each in everything if each.application == application]
    if not found:
        hint = hint_at(application, {each.application for each in everything})
        raise NotRunning(f"no application {application} runs on this machine{hint}")
    rows = []
    for each in found:
        paused = (await _ask(each.socket, "POST", f"/{deed}", listeners))["paused"]
        rows.append((each.application, each.process_id, tuple(paused)))
    if as_json:
        names = ("application", "process_id", "paused")
        say_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        say_table(
            ("APPLICATION", "PROCESS", "PAUSED"),
            [(name, process_id, ",".join(paused)) for name, process_id, paused in rows],
        )
    return 0


async def _running() -> list[Running]:
    folder = _folder()
    found = []
    for socket in sorted(folder.iterdir()) if folder.exists() else ():
        try:
            told = await _ask(socket, "GET", "/listeners", ())
        except ConnectionRefusedError:
            socket.unlink(missing_ok=True)  # Its process was killed.
        except FileNotFoundError:
            continue
        else:
            process_id = int(socket.suffix[1:])
            found.append(Running(told["application"], process_id, socket, told["listeners"]))
    return found


async def _ask(socket: Path, method: str, path: str, arguments: tuple[str, ...]) -> Any:
    async with asyncio.timeout(_PATIENCE_S):
        reader, writer = await asyncio.open_unix_connection(socket)
        try:
            body = json.dumps(arguments).encode()
            head = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.read()
        finally:
            writer.close()
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    if "error" in told:
        raise ConfigError(told["error"])
    return told
