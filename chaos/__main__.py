"""Torture a cluster of real nodes: `python -m chaos --takeovers 200`.

Three nodes share a store; clients of librdkafka, kafka-python, aiokafka, Semel, Java and franz-go
produce, transact, copy and read, and so does a Spark pipeline. The leader is killed, frozen, cut
off, stopped or moved, again and again;
with `--lanes N` that of some lane, and with `--workers N` one of the workers of a folder is killed,
frozen or stopped.
All that clients were told goes to a file, which `python -m semel.verify --check` judges: exit code
0 if nothing was lost, doubled, torn or stuck.
"""

import argparse
import contextlib
import math
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from chaos.nodes import Nodes
from chaos.outside import Program, franz_go, java
from chaos.run import Report, Run, by_deed
from chaos.subject import Subject
from chaos.workers import Workers
from semel.testing.broker import Broker
from semel.testing.cluster import Cluster

HISTORY = Path("build", "chaos", "history.jsonl")
PROGRAMS: Final[Mapping[str, Callable[[], Program]]] = {"java": java, "franz-go": franz_go}
SPARK: Final = "spark"
FIRST = "rd-idempotent"
"""The client by which it is told how long nothing was acknowledged."""


def main() -> int:
    reader = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    reader.add_argument("--takeovers", type=int, default=200)
    reader.add_argument("--minutes", type=float, default=math.inf, help="fewer if it takes longer")
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--history", type=Path, default=HISTORY)
    deeds = {*Nodes.deeds, *Workers.deeds}
    reader.add_argument("--deeds", nargs="+", choices=sorted(deeds), help="(default: all)")
    place = reader.add_mutually_exclusive_group()
    place.add_argument("--lanes", type=int, default=1, help="of the nodes (default 1)")
    place.add_argument("--workers", type=int, help="in place of nodes")
    reader.add_argument(
        "--outside",
        nargs="*",
        choices=[*PROGRAMS, SPARK],
        default=[*PROGRAMS, SPARK],
        help="programs of their own that take part (default: all)",
    )
    chosen = reader.parse_args()
    # All that was started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen.history.parent.mkdir(parents=True, exist_ok=True)
    chosen.history.unlink(missing_ok=True)
    programs = list(_had(chosen.outside))
    with _subject(chosen.workers, chosen.lanes) as subject:
        run = Run(
            subject,
            chosen.history,
            chosen.seed,
            lambda line: print(line, flush=True),
            programs,
            has_spark=SPARK in chosen.outside,
        )
        report = run.tell(chosen.takeovers, chosen.deeds or subject.deeds, 60 * chosen.minutes)
    for line in lines(report):
        print(line)
    print(f"history: {chosen.history}")
    return 0 if report.has_held else 1


@contextlib.contextmanager
def _subject(workers: int | None, lanes: int) -> Iterator[Subject]:
    if workers is None:
        with Cluster(proxied=True, lanes=lanes) as cluster:
            yield Nodes(cluster, lanes)
        return
    with (
        tempfile.TemporaryDirectory(prefix="semel-chaos-") as folder,
        Broker(data=folder, workers=workers) as broker,
    ):
        yield Workers(broker, workers)


def _had(names: Sequence[str]) -> Iterator[Program]:
    """Those that can be had here."""
    for name in names:
        try:
            if name in PROGRAMS:
                yield PROGRAMS[name]()
        except pytest.skip.Exception as reason:
            print(f"without {name}: {reason}", flush=True)


def lines(report: Report) -> Iterator[str]:
    yield f"{'':24}takeovers   led, median and longest   first acknowledgement   all served"
    for deed, found in by_deed(report.takeovers).items():
        led_s = [each.led_s for each in found]
        first_s = [each.served_s[FIRST] for each in found]
        all_s = [max(each.served_s.values()) for each in found if each.is_everybodys]
        yield (
            f"{deed:24}{len(found):9}   {median(led_s):10.2f} s {max(led_s):8.2f} s "
            f"{median(first_s):11.2f} s {max(first_s):6.2f} s "
            + (f"{median(all_s):6.2f} s {max(all_s):6.2f} s" if all_s else f"{'-':>8}")
        )
    passed_by = ", ".join(f"{name} {count}" for name, count in report.passed_by.most_common())
    yield f"not served before the next strike, how often: {passed_by or 'nobody'}"
    yield f"transactions whose producer was fenced: {len(report.fatal)}"
    yield from (f"    {each}" for each in report.fatal[:5])
    yield f"calls of librdkafka that never came back: {len(report.hung)}"
    yield from report.failures
    yield from report.judgement.lines()


if __name__ == "__main__":
    sys.exit(main())
