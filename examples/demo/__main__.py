"""Kill a PySpark pipeline wherever it hurts, and count: exactly once beside at least once.

    python -m examples.demo [PICTURE] [--cluster [--store URL] [--lanes N]] [--workers N]
                            [--takeovers N]

Orders come in as a stream. A Spark application enriches each of them, adds up the revenue by
category and writes both to topics of their own, in one transaction for each micro-batch. While it
runs, the Python workers, the broker and the whole driver are killed with SIGKILL. Then the same is
done to the same pipeline with a plain producer. The truth is computed from the orders in the log,
and the results are counted as any consumer of committed records sees them.

With --cluster the log is that of three nodes on one store, and it is the node that leads which is
killed and frozen in turns; with --lanes the nodes lead a part each, and are struck in turns. With
--workers the log is led by several workers on this machine.
"""

import argparse
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.demo.picture import Words, write_picture
from examples.demo.run import Run, Story
from examples.demo.stage import TAKEOVERS, Stage, one_broker, several_workers, three_nodes

FOLDER = Path("build", "demo")
KILLS = Words("The same pipeline, the same kills", "Dashed lines are <code>kill -9</code>.")
TAKEN_OVER = Words(
    "A pipeline, and three nodes that take over from each other",
    "At dashed lines the node that led was killed with <code>kill -9</code> or frozen with "
    "<code>kill -STOP</code>.",
)


def main(
    picture: Path,
    console: Console,
    *,
    is_cluster: bool = False,
    store: str = "",
    takeovers: int = TAKEOVERS,
    lanes: int = 1,
    workers: int = 1,
) -> list[Story]:
    stories = []
    stage: Callable[[Path], AbstractContextManager[Stage]] = one_broker
    if is_cluster:
        stage = partial(three_nodes, store=store, takeovers=takeovers, lanes=lanes)
    elif workers > 1:
        stage = partial(several_workers, count=workers, takeovers=takeovers)
    is_beside = stage is one_broker
    deliveries = ("exactly-once", "at-least-once") if is_beside else ("exactly-once",)
    with tempfile.TemporaryDirectory(prefix="semel-demo-") as folder:
        for delivery in deliveries:
            console.print(f"[bold]{delivery}[/]: the driver starts, which takes a few seconds")
            stories.append(Run(delivery, Path(folder, delivery), console, stage).tell())
    console.print(_table(stories, "takeovers" if is_cluster else "kills"))
    write_picture(picture, stories, TAKEN_OVER if is_cluster else KILLS)
    console.print(f"The picture: [bold]{picture.resolve().as_uri()}[/]", soft_wrap=True)
    return stories


def _table(stories: list[Story], strikes: str) -> Table:
    table = Table(title="what came out of the orders that went in")
    table.add_column("")
    for story in stories:
        table.add_column(story.delivery, justify="right")
    outcomes = [story.outcome for story in stories]
    for name in ("orders_in", "results_out", "lost", "duplicated", "wrong"):
        counts = [getattr(outcome, name) for outcome in outcomes]
        is_fault = name in ("lost", "duplicated", "wrong")
        cells = [
            f"[bold {'red' if count else 'green'}]{count:,}[/]" if is_fault else f"{count:,}"
            for count in counts
        ]
        table.add_row(name.replace("_", " "), *cells)
    table.add_row("revenue due", *(money(each.revenue_due_cents) for each in outcomes))
    table.add_row("revenue in the results", *(money(each.revenue_cents) for each in outcomes))
    table.add_row(strikes, *(str(len(story.kills)) for story in stories))
    table.add_row("starts of the driver", *(str(story.starts) for story in stories))
    return table


def money(cents: int) -> str:
    return f"{cents / 100:,.2f}"


if __name__ == "__main__":
    reader = argparse.ArgumentParser(prog="python -m examples.demo")
    reader.add_argument("picture", nargs="?", type=Path)
    reader.add_argument("--cluster", action="store_true")
    reader.add_argument("--store", default="", help="where the nodes' log lies, as s3://BUCKET")
    reader.add_argument("--takeovers", type=int, default=TAKEOVERS)
    reader.add_argument("--lanes", type=int, default=1, help="which the nodes lead between them")
    reader.add_argument("--workers", type=int, default=1)
    chosen = reader.parse_args()
    name = "semel-demo-cluster.html" if chosen.cluster else "semel-demo.html"
    told = main(
        chosen.picture or FOLDER / name,
        Console(),
        is_cluster=chosen.cluster,
        store=chosen.store,
        takeovers=chosen.takeovers,
        lanes=chosen.lanes,
        workers=chosen.workers,
    )
    raise SystemExit(not told[0].outcome.is_exact)
