"""Writes the locks: each package that is installed for work on Semel, with the hashes of its files.

What is locked keeps its version; --upgrade takes the newest of all. What `pyproject.toml` asks for
is looked for on every system and on each Python from 3.11 on.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PYTHON: Final = "3.11"
LOCKS: Final = {
    "requirements-dev.lock": ["pyproject.toml", "--group", "dev"],
    "requirements-release.lock": ["--group", "release"],
}
COMMAND: Final = (
    "uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header "
    "--no-emit-index-url --no-emit-find-links"
)
HEAD: Final = "# Written by `make lock` from pyproject.toml.\n"


def lock(name: str, wanted: list[str], *, upgrade: bool) -> None:
    file = ROOT / name
    command = [sys.executable, "-m", *COMMAND.split(), "--python-version", PYTHON, *wanted]
    subprocess.run(
        [*command, *(["--upgrade"] if upgrade else []), "--output-file", name],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    locked = file.read_text(encoding="utf-8").removeprefix(HEAD)
    unhashed = [
        package
        for package in re.findall(r"^\S+==.*?(?=^\S|\Z)", locked, re.DOTALL | re.MULTILINE)
        if "--hash=sha256:" not in package
    ]
    assert not unhashed, unhashed
    assert "://" not in locked
    file.write_text(HEAD + locked, encoding="utf-8")
    count = len(re.findall(r"^\S+==", locked, re.MULTILINE))
    print(f"{name}: {count} packages")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest of everything")
    upgrade = parser.parse_args().upgrade
    for name, wanted in LOCKS.items():
        lock(name, wanted, upgrade=upgrade)
    return 0


if __name__ == "__main__":
    sys.exit(main())
