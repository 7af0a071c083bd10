"""Brings programs that are not in PyPI onto this machine, or says why it cannot.

All of it goes to `build/peers`, and is fetched once; nothing is installed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FETCHED = ROOT / "build" / "peers"
_TIMEOUT_S = 600


def jars(project: Path) -> Path:
    """The folder with the dependencies of a Maven project, from Maven Central."""
    pom = project / "pom.xml"

    def fetch(folder: Path) -> None:
        _run(
            "Maven Central",
            [
                *(
                    "mvn",
                    "-q",
                    "-B",
                    "-f",
                    str(pom),
                    "dependency:copy-dependencies",
                ),
                *("-DincludeScope=runtime", f"-DoutputDirectory={folder}"),
            ],
        )

    return _once(f"{project.name}-jars", fetch, needs=["java", "mvn"], sources=[pom])


def maven_file(artifact: str) -> Path:
    """One file of Maven Central, by group:name:version:type:classifier, without what it needs."""
    name, version = artifact.split(":")[1:3]

    def fetch(folder: Path) -> None:
        copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        _run("Maven Central", [*copy, f"-DoutputDirectory={folder}"])

    (file,) = _once(f"{name}-{version}", fetch, needs=["java", "mvn"], sources=[]).iterdir()
    return file


def java_classes(source: Path, class_path: Path) -> Path:
    """The folder with what `javac` made of one source file."""

    def fetch(folder: Path) -> None:
        command = ["javac", "-Werror", "-d", str(folder), "-cp", f"{class_path}/*", str(source)]
        subprocess.run(command, check=True, timeout=_TIMEOUT_S)

    return _once(f"{source.stem}-classes", fetch, needs=["javac"], sources=[source])


def go_program(project: Path) -> Path:
    """The program that Go makes of a module, whose dependencies come from the Go proxy."""

    def fetch(folder: Path) -> None:
        _run("the Go proxy", ["go", "mod", "download"], folder=project)
        build = ["go", "build", "-o", str(folder / "program"), "."]
        subprocess.run(build, cwd=project, check=True, timeout=_TIMEOUT_S)

    sources = sorted(file for file in project.iterdir() if file.is_file())
    return _once(f"{project.name}-program", fetch, needs=["go"], sources=sources) / "program"


def go_tool(package: str) -> Path:
    """The program that Go makes of a package at a version, as path@version, from the Go proxy."""
    name = package.partition("@")[0].rsplit("/", 1)[-1]

    def fetch(folder: Path) -> None:
        where = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        _run("the Go proxy", ["go", "install", package], environment=where)

    version = package.partition("@")[2]
    return _once(f"{name}-{version}", fetch, needs=["go"], sources=[]) / name


def wheels(name: str, requirements: Sequence[str]) -> None:
    """What PyPI has, for this process and those it starts."""

    def fetch(folder: Path) -> None:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run("PyPI", [*install, "--only-binary", ":all:", "--target", str(folder), *requirements])

    asked = hashlib.sha256(" ".join(requirements).encode()).hexdigest()
    folder = str(_once(f"{name}-wheels-{asked[:8]}", fetch, needs=[], sources=[]))
    if folder not in sys.path:
        # Behind all else: what is installed goes before what came along.
        sys.path.append(folder)
        known = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{known}{os.pathsep}{folder}" if known else folder


def package(requirement: str) -> Path:
    """One package of PyPI, without what it needs, for processes whose path begins with this."""

    def fetch(folder: Path) -> None:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run("PyPI", [*install, "--no-deps", "--target", str(folder), requirement])

    name = re.sub(r"[^\w.]+", "-", requirement).strip("-.")
    return _once(f"{name}-package", fetch, needs=[], sources=[])


def debian_program(name: str, package: str = "") -> list[str]:
    """The command of a Debian package, unpacked without being installed.

    The package is named like its program if it is not named.
    """
    if (installed := shutil.which(name)) is not None:
        return [installed]
    package = package or name

    def fetch(folder: Path) -> None:
        install = ["apt-get", "--simulate", "--no-install-recommends", "install", package]
        simulated = _run("Debian", install)
        missing = [line.split()[1] for line in simulated.splitlines() if line.startswith("Inst ")]
        _run("Debian", ["apt-get", "download", *missing], folder=folder)
        for archive in sorted(folder.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)
            archive.unlink()

    folder = _once(f"{package}-package", fetch, needs=["apt-get", "dpkg"], sources=[])
    libraries = sorted({str(library.parent) for library in folder.glob("usr/lib/**/*.so*")})
    program = folder / "usr" / "bin" / name
    return ["env", f"LD_LIBRARY_PATH={':'.join(libraries)}", str(program)]


def _once(
    name: str, fetch: Callable[[Path], None], *, needs: Sequence[str], sources: Sequence[Path]
) -> Path:
    """The folder that `fetch` fills; filled anew when a source has changed."""
    for program in needs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed", allow_module_level=True)
    checksum = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    folder = FETCHED / f"{name}-{checksum[:12]}"
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        fetch(partial)
        partial.rename(folder)
    return folder


def _run(
    registry: str,
    command: Sequence[str],
    *,
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{registry} did not answer in {_TIMEOUT_S} s", allow_module_level=True)
    if done.returncode != 0:
        plain = re.sub(r"\x1b\[\d*m", "", done.stderr + done.stdout).strip()
        said = plain.splitlines() or ["no reason was given"]
        pytest.skip(f"{registry} does not give it: {said[0]}", allow_module_level=True)
    return done.stdout
