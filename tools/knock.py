"""Knocks at the door of a broker as often as wanted, with whatever can be sent before a sign-in."""

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

ROOT = Path(__file__).parent.parent
GROWTH_MB_MAX = 16
WARMED_BY = 20_000
"""Knocks after which nothing is imported any more and all caches are full."""
ROUND = 10_000
"""Knocks of one broker; a round can be repeated by its seed."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="knock", description=__doc__)
    parser.add_argument("--knocks", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, help="repeat the round of this seed alone")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT / "tests"))
    seed = SystemRandom().randrange(1_000_000_000) if options.seed is None else options.seed
    rounds = 1 if options.seed is not None else -(-options.knocks // ROUND)
    began_s, done, warm_mb = time.process_time(), 0, 0.0
    good = refused = 0
    for number in range(rounds):
        count = min(ROUND, options.knocks - done)
        try:
            counted = _round(seed + number, count)
        except BaseException:
            sys.stderr.write(f"to repeat it: python tools/knock.py --seed {seed + number}\n")
            raise
        done, good, refused = done + count, good + counted[0], refused + counted[1]
        if done <= WARMED_BY:
            warm_mb = _resident_mb()
        if number % 10 == 9:
            print(f"{done:,} knocks, {_resident_mb():.0f} MB", flush=True)
    growth_mb = _resident_mb() - warm_mb
    print(
        f"seed {seed}: {done:,} knocks in {time.process_time() - began_s:.0f} s of CPU; {good:,} "
        f"came in rightly and nobody else, {refused:,} were refused in words; nothing raised, and "
        f"nothing was left behind; memory grew by {growth_mb:.1f} MB, to {_peak_mb():.0f} MB"
    )
    return int(growth_mb > GROWTH_MB_MAX)


def _round(seed: int, count: int) -> tuple[int, int]:
    from support.knocking import knocks
    from support.seeded_loop import run

    errors: list[dict[str, Any]] = []

    async def knock(folder: Path) -> tuple[int, int]:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: errors.append(told))
        async with knocks(folder, seed) as knocking:
            await knocking.run(count)
            return knocking.good_count, knocking.refused_count

    with tempfile.TemporaryDirectory(prefix="semel-knock-") as folder:
        counted = run(Random(seed), knock(Path(folder)))
    assert not errors, errors
    return counted


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
