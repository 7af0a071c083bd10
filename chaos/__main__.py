"""Torture a cluster of real nodes: `python -m chaos --takeovers 200`.

Three nodes share a store; clients of librdkafka, kafka-python, aiokafka and Semel produce,
transact, copy and read. The leader is killed, frozen, cut off, stopped or moved, again and again.
All that clients were told goes to a file, which `python -m semel.verify --check` judges: exit code
0 if nothing was lost, doubled, torn or stuck.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from chaos.run import DEEDS, Report, Run, by_deed
from semel.testing.cluster import Cluster

HISTORY = Path("build", "chaos", "history.jsonl")
FIRST = "rd-idempotent"
"""The client by which it is told how long nothing was acknowledged."""


def main() -> int:
    reader = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    reader.add_argument("--takeovers", type=int, default=200)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--history", type=Path, default=HISTORY)
    reader.add_argument("--deeds", nargs="+", choices=list(DEEDS), default=list(DEEDS))
    chosen = reader.parse_args()
    chosen.history.parent.mkdir(parents=True, exist_ok=True)
    chosen.history.unlink(missing_ok=True)
    with Cluster(proxied=True) as cluster:
        run = Run(cluster, chosen.history, chosen.seed, lambda line: print(line, flush=True))
        report = run.tell(chosen.takeovers, chosen.deeds)
    for line in lines(report):
        print(line)
    print(f"history: {chosen.history}")
    return 0 if report.has_held else 1


def lines(report: Report) -> Iterator[str]:
    yield f"{'':24}takeovers   led, median and longest   first acknowledgement   all served"
    for deed, found in by_deed(report.takeovers).items():
        led_s = [each.led_s for each in found]
        first_s = [each.served_s[FIRST] for each in found]
        all_s = [max(each.served_s.values()) for each in found]
        yield (
            f"{deed:24}{len(found):9}   {median(led_s):10.2f} s {max(led_s):8.2f} s "
            f"{median(first_s):11.2f} s {max(first_s):6.2f} s "
            f"{median(all_s):6.2f} s {max(all_s):6.2f} s"
        )
    yield f"transactions whose producer was fenced: {len(report.fatal)}"
    yield from (f"    {each}" for each in report.fatal[:5])
    yield f"calls of librdkafka that never came back: {len(report.hung)}"
    yield from report.failures
    yield from report.judgement.lines()


if __name__ == "__main__":
    sys.exit(main())
