"""This version and another by turns: each with its own source, build and measures.

What a machine does in one minute is not what it does in the next, so that figures of two runs say
little about two versions. The other is checked out in `build/beside`; it is compiled if this one
is, which takes minutes, once.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import semel.lane.lane
from bench.figures import Figure, NotMeasured

ROOT = Path(__file__).parent.parent
WORKTREES = ROOT / "build" / "beside"


class Version(NamedTuple):
    root: Path
    import_path: Path
    """Where its `semel` is imported from."""

    def measure(self, name: str, options: Sequence[str]) -> list[Figure]:
        """Raises NotMeasured if it has no such measure."""
        results = self.root / "bench" / "results"
        before = set(results.glob("*.json"))
        environment = {**os.environ, "PYTHONPATH": str(self.import_path)}
        done = subprocess.run(
            [sys.executable, "-m", "bench", *options, name],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        written = set(results.glob("*.json")) - before
        if not written:
            raise NotMeasured((done.stderr or done.stdout).strip().rpartition("\n")[2])
        (result,) = written
        return [
            Figure(each["name"], each["value"], each["limit"], each["detail"])
            for each in json.loads(result.read_text(encoding="utf-8"))["figures"]
        ]


def this_version() -> Version:
    return Version(ROOT, Path(semel.lane.lane.__file__).parent.parent.parent)


def other_version(revision: str) -> Version:
    commit = _output("git", "rev-parse", "--short", f"{revision}^{{commit}}")
    root = WORKTREES / commit
    if not root.exists():
        _run("git", "worktree", "prune")
        _run("git", "worktree", "add", "--quiet", "--detach", str(root), commit)
    if Path(semel.lane.lane.__file__).suffix == ".py":
        return Version(root, root / "src")
    compiled = root / "build" / "compiled"
    if not compiled.exists():
        _compile(root, compiled)
    return Version(root, compiled)


def in_turns(
    revision: str, names: Sequence[str], options: Sequence[str], turns: int
) -> list[tuple[Figure, float | None]]:
    """The median of each figure here, and in the other version; None if that has no such figure."""
    here, there = this_version(), other_version(revision)
    found: list[tuple[Figure, float | None]] = []
    for name in names:
        measured: list[Figure] = []
        others: dict[str, list[float]] = {}
        for _ in range(turns):
            try:
                for figure in there.measure(name, options):
                    others.setdefault(figure.name, []).append(figure.value)
            except NotMeasured:
                pass
            measured += here.measure(name, options)
        for title in dict.fromkeys(each.name for each in measured):
            same = [each for each in measured if each.name == title]
            value = statistics.median(each.value for each in same)
            detail = {
                "least": min(each.value for each in same),
                "most": max(each.value for each in same),
            }
            other = others.get(title)
            if other is not None:
                detail |= {"other_least": min(other), "other_most": max(other)}
            one = same[0]._replace(value=value, detail=detail)
            found.append((one, None if other is None else statistics.median(other)))
    return found


def _compile(root: Path, target: Path) -> None:
    wheels = root / "build" / "wheel"
    pip = (sys.executable, "-m", "pip")
    _run(
        *pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), ".",
        cwd=root, environment={"SEMEL_COMPILE": "1"},
    )  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    _run(*pip, "install", "--quiet", "--no-deps", "--target", str(target), str(wheel))


def _run(*command: str, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env={**os.environ, **(environment or {})}, check=True)


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
