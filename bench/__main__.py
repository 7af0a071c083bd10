"""`python -m bench [--quick] [--peers] [--beside REV] [NAME …]`: measure, print a table, keep it.

It is kept as JSON. With `--beside` each measure is taken by turns in this version and in another.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import (
    age,
    client,
    clusters,
    columns,
    compaction,
    connector,
    forgetting,
    lanes,
    packing,
    pipelines,
    security,
    the_log,
    transactions,
    workers,
)
from bench.beside import in_turns
from bench.figures import Figure, NotMeasured, Plan

MEASURES = (
    the_log.produce_cost,
    the_log.group_commit,
    the_log.fetch_rate,
    the_log.many_partitions,
    workers.produce_over_workers,
    the_log.start_up,
    the_log.memory,
    age.roll_pause,
    age.cold_reads,
    age.start_with_segments,
    age.tail_fetch,
    transactions.transaction_overhead,
    transactions.commits_at_once,
    transactions.idle_transactional_ids,
    lanes.transaction_over_two_lanes,
    client.client_send,
    client.client_poll,
    client.client_transactions,
    columns.topic_to_arrow,
    columns.arrow_to_topic,
    packing.lz4_packing,
    compaction.compaction,
    forgetting.produce_beside_settling,
    forgetting.at_retention_limit,
    forgetting.cold_backfill,
    forgetting.simulated_day,
    forgetting.many_batches,
    security.produce_over_tls,
    security.handshake_cost,
    security.produce_with_access_lists,
    security.many_rules,
    security.beside_strangers,
    clusters.commit_on_store,
    lanes.commit_over_lanes_on_store,
    clusters.produce_cpu_on_store,
    clusters.bytes_on_slow_store,
    clusters.idle_cluster,
    clusters.takeover,
    clusters.start_on_store,
    pipelines.pipeline_rate,
    pipelines.micro_batch_cost,
)
PEER_MEASURES = (connector.spark_connector,)
"""Beside programs that PyPI does not have."""
RESULTS = Path(__file__).parent / "results"
TURNS = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = [each.__name__ for each in (*MEASURES, *PEER_MEASURES)]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--peers", action="store_true", help="beside programs from Maven Central")
    parser.add_argument("--quick", action="store_true", help="short loads, rough figures")
    parser.add_argument("--beside", metavar="REV", help="by turns with this version of the source")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"how many, each; {TURNS}")
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    plan = Plan(seconds=0.7, repeats=1) if options.quick else Plan(seconds=3.0, repeats=3)
    console = Console()
    table = Table("figure", "value", "limit", "", "detail")
    figures: list[Figure] = []
    if options.beside:
        names = options.names or known[: len(MEASURES)]
        return _beside(options, names, console)
    try:
        for measure in PEER_MEASURES if options.peers else MEASURES:
            if options.names and measure.__name__ not in options.names:
                continue
            console.print(f"[dim]{measure.__name__} …[/dim]")
            try:
                measured = list(measure(plan))
            except NotMeasured as reason:
                console.print(f"[yellow]{measure.__name__} is left out: {reason}[/yellow]")
                continue
            for figure in measured:
                figures.append(figure)
                table.add_row(
                    figure.name, f"{figure.value:.3g}", figure.limit, _mark(figure), _detail(figure)
                )
    finally:
        # Also if one fails, as those before it took minutes.
        if figures:
            console.print(table)
            _keep(figures, plan)
    return 0 if all(figure.holds for figure in figures) else 1


def _beside(options: argparse.Namespace, names: list[str], console: Console) -> int:
    table = Table("figure", "value", options.beside, "limit", "", "detail")
    flags = [f"--{flag}" for flag in ("quick", "peers") if getattr(options, flag)]
    figures = []
    for name in names:
        console.print(f"[dim]{name} …[/dim]")
        try:
            found = in_turns(options.beside, [name], flags, options.turns)
        except NotMeasured as reason:
            console.print(f"[yellow]{name} is left out: {reason}[/yellow]")
            continue
        for figure, other in found:
            shown = "" if other is None else f"{other:.3g}"
            table.add_row(
                figure.name,
                f"{figure.value:.3g}",
                shown,
                figure.limit,
                _mark(figure),
                _detail(figure),
            )
            if other is not None:
                figure.detail[options.beside] = other
            figures.append(figure)
    console.print(table)
    _keep(figures, Plan(seconds=0, repeats=options.turns))
    return 0 if all(figure.holds for figure in figures) else 1


def _mark(figure: Figure) -> str:
    return "[green]holds[/green]" if figure.holds else "[red]missed[/red]"


def _detail(figure: Figure) -> str:
    return ", ".join(f"{name} {value:,.3g}" for name, value in figure.detail.items())


def _keep(figures: list[Figure], plan: Plan) -> None:
    result = {
        "command": "python -m bench " + " ".join(sys.argv[1:]),
        "commit": _output("git", "rev-parse", "HEAD"),
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "interpreter_start_s": interpreter_start_s(),
        },
        "plan": plan._asdict(),
        "figures": [{**figure._asdict(), "holds": figure.holds} for figure in figures],
    }
    name = time.strftime("%Y-%m-%dT%H%M%S") + ".json"
    file = RESULTS / name
    file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def interpreter_start_s() -> float:
    """What starting Python alone takes here, to read start-up times by."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
