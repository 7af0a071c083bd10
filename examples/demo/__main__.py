"""Kill a PySpark pipeline wherever it hurts, and count: exactly once beside at least once.

    python -m examples.demo [PICTURE]

Orders come in as a stream. A Spark application enriches each of them, adds up the revenue by
category and writes both to topics of their own, in one transaction for each micro-batch. While it
runs, the Python workers, the broker and the whole driver are killed with SIGKILL. Then the same is
done to the same pipeline with a plain producer. The truth is computed from the orders in the log,
and the results are counted as any consumer of committed records sees them.
"""

import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.demo.picture import write_picture
from examples.demo.run import Run, Story

PICTURE = Path("build", "demo", "semel-demo.html")


def main(picture: Path, console: Console) -> list[Story]:
    stories = []
    with tempfile.TemporaryDirectory(prefix="semel-demo-") as folder:
        for delivery in ("exactly-once", "at-least-once"):
            console.print(f"[bold]{delivery}[/]: the driver starts, which takes a few seconds")
            stories.append(Run(delivery, Path(folder, delivery), console).tell())
    console.print(_table(stories))
    write_picture(picture, stories)
    console.print(f"The picture: [bold]{picture.resolve().as_uri()}[/]", soft_wrap=True)
    return stories


def _table(stories: list[Story]) -> Table:
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
    table.add_row("kills", *(str(len(story.kills)) for story in stories))
    table.add_row("starts of the driver", *(str(story.starts) for story in stories))
    return table


def money(cents: int) -> str:
    return f"{cents / 100:,.2f}"


if __name__ == "__main__":
    told = main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE, Console())
    raise SystemExit(not told[0].outcome.is_exact)
