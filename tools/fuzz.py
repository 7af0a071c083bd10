"""Draws new cases for the properties of the tests, round after round; says how to repeat them."""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
NO_TESTS = 5
"""What pytest ends with if nothing was selected."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="begin rounds for so long")
    parser.add_argument("--examples", type=int, default=500, help="cases of a property and round")
    parser.add_argument("--seed", type=int, help="repeat the round of this seed alone")
    parser.add_argument("tests", nargs="*", default=["tests"], help="files or folders of tests")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _round(options.seed, options.examples, options.tests)
    seed = random.SystemRandom().randrange(1_000_000_000)
    began = time.monotonic()
    for number in range(1_000_000_000):
        code = _round(seed + number, options.examples, options.tests)
        if code:
            return code
        minutes = (time.monotonic() - began) / 60
        if minutes >= options.minutes:
            print(f"{number + 1} rounds in {minutes:.1f} minutes, and every property held")
            return 0
    raise AssertionError("there is an end to every number of minutes")


def _round(seed: int, examples: int, tests: list[str]) -> int:
    print(f"seed {seed}, {examples} cases of each property", flush=True)
    command = [
        *[sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml")],
        *["-m", "hypothesis", "--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}"],
        *["-n", os.environ.get("WORKERS", "2"), "--dist", "load", *tests],
    ]
    environment = {**os.environ, "SEMEL_FUZZ_EXAMPLES": str(examples)}
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code and code != NO_TESTS:
        print(f"to repeat this round: make fuzz SEED={seed} EXAMPLES={examples}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
