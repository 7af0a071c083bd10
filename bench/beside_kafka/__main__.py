"""`python -m bench.beside_kafka [--quick] [NAME …]`: measure, keep it, and write its page.

Of some measures only the results are kept, in bench/results; a run of all writes the page,
docs/beside-kafka.md, unless the machine was too busy with something else for it to be true.
`--page [FILE]` measures nothing, and writes it of that file or again of what was kept for it.
"""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from bench.beside_kafka import measures
from bench.beside_kafka.clients import Client, all_clients, version_of
from bench.beside_kafka.measures import FULL, QUICK, Plan, Scene
from bench.beside_kafka.others import Others
from bench.beside_kafka.page import KEPT, TITLES, write_page
from bench.beside_kafka.results import Results, Row
from bench.beside_kafka.servers import MAKERS, Server, WarmKafka
from bench.figures import NotMeasured
from bench.transactions import sync_ms

RESULTS = Path(__file__).parent.parent / "results"
USELESS_PERCENT = 30
"""Of the cores: where others take more of them, they decide who is ahead."""
LOOK_S = 3
"""How long is looked whether they do, before minutes are spent."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.beside_kafka", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(measures.NAMES))
    parser.add_argument("--quick", action="store_true", help="short turns, rough figures")
    parser.add_argument(
        "--page", metavar="FILE", type=Path, nargs="?", const=KEPT, help="only write the page"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(measures.NAMES):
        known = ", ".join(measures.NAMES)
        parser.error(f"no such measure: {', '.join(sorted(unknown))}; there are {known}")
    # As `make` has it, and those who install it: its modules are compiled to bytecode once.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # So that what was started is ended, as after Ctrl-C.
    signal.signal(signal.SIGTERM, _exit)
    console = Console()
    if options.page is not None:
        _write(Results.read(options.page), console)
        return 0
    names = [name for name in measures.NAMES if name in (options.names or measures.NAMES)]
    before = Others()
    time.sleep(LOOK_S)
    if not options.names and (busy := before.percent()) > USELESS_PERCENT:
        console.print(
            f"[red]Other programs take {busy:.0f} % of the cores: the page would not be written. "
            "Wait until they have ended, or name what is to be measured all the same[/red]"
        )
        return 1
    try:
        versions, left_out = _servers()
    except NotMeasured as reason:
        console.print(f"[yellow]Kafka is left out: {reason}[/yellow]")
        return 0
    results = _empty(versions, left_out, quick=options.quick)
    file = RESULTS / time.strftime("beside-kafka-%Y-%m-%dT%H%M%S.json")
    others = Others()
    started = time.perf_counter()
    try:
        _measure(results, names, QUICK if options.quick else FULL, console)
    finally:
        results.machine["others_percent"] = others.percent()
        results.plan["minutes"] = (time.perf_counter() - started) / 60
        # Also if one fails, as those before it took minutes.
        if results.rows:
            results.write(file)
            console.print(f"kept in {file}")
    if options.names:
        return 0
    if results.machine["others_percent"] > USELESS_PERCENT:
        console.print(
            f"[red]Other programs took {results.machine['others_percent']:.0f} % of the cores "
            f"meanwhile: the page is left as it is. `--page {file}` writes it all the same[/red]"
        )
        return 1
    _write(results, console)
    return 0


def _write(results: Results, console: Console) -> None:
    results.write(KEPT)
    write_page(results)
    console.print("docs/beside-kafka.md is written")


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _empty(versions: dict[str, str], left_out: list[str], *, quick: bool) -> Results:
    return Results(
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        quick=quick,
        command=" ".join(["python -m bench.beside_kafka", *sys.argv[1:]]),
        commit=_output("git", "describe", "--always", "--dirty", "--abbrev=12"),
        plan={},
        machine=_machine(),
        versions=versions,
        left_out=left_out,
        rows=[],
    )


def _measure(results: Results, names: list[str], plan: Plan, console: Console) -> None:
    subjects = list(results.versions)
    results.plan.update(plan._asdict())
    with all_clients() as (clients, missing):
        results.left_out.extend(missing)
        results.versions.update({client.name: client.version for client in clients})
        if "start_up" in names:
            with _timed(console, "start_up"):
                results.rows.extend(measures.start_up(clients[0], subjects, plan))
        if set(names) <= {"start_up"}:
            return
        with _scene(subjects, clients, plan, results.rows) as scene:
            idle_mb = measures.resident_mb(scene)
            with _timed(console, "warm-up"):
                results.plan["warm_rounds"] = measures.warm_up(scene)
            for name in names:
                if name in measures.IN_SCENE:
                    with _timed(console, name):
                        measures.IN_SCENE[name](scene)
            if "memory" in names:
                measures.memory(scene, idle_mb)


def _servers() -> tuple[dict[str, str], list[str]]:
    """The versions of those that can be had, and why others cannot."""
    versions: dict[str, str] = {}
    left_out: list[str] = []
    for name, make in MAKERS.items():
        try:
            with closing(make()) as server:
                versions[name] = (
                    f"Apache Kafka {version_of(server.jars, 'kafka_2.13')}"
                    if isinstance(server, WarmKafka)
                    else f"Semel {version('semel')}"
                )
        except NotMeasured as reason:
            if name in ("kafka", "kafka_sync"):
                raise
            left_out.append(f"{TITLES[name]}: {reason}")
    return versions, left_out


@contextmanager
def _scene(
    subjects: list[str], clients: list[Client], plan: Plan, rows: list[Row]
) -> Iterator[Scene]:
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        for name in subjects:
            servers[name] = stack.enter_context(closing(MAKERS[name]()))
            servers[name].prepare()
            servers[name].launch()
        for server in servers.values():
            measures.await_first_record(server, 0)
        yield Scene(servers, clients, plan, rows)


@contextmanager
def _timed(console: Console, name: str) -> Iterator[None]:
    console.print(f"[dim]{name} …[/dim]", end="")
    started = time.perf_counter()
    yield
    console.print(f"[dim] {time.perf_counter() - started:.0f} s[/dim]")


def _machine() -> dict[str, Any]:
    processor = re.search(r"^model name\s*: (.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    memory_kb = re.search(r"^MemTotal:\s*(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    return {
        "system": platform.system() + " " + platform.release().split("-")[0],
        "processor": processor[1] if processor else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int(memory_kb[1]) / 2**20) if memory_kb else 0,
        "sync_ms": sync_ms(),
        "python": platform.python_version(),
        "java": _output("java", "--version").partition("\n")[0],
    }


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
