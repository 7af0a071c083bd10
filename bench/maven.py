"""Jars from Maven Central, each fetched once and compared with its checksum."""

import hashlib
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from bench.figures import NotMeasured

CENTRAL = "https://repo.maven.apache.org/maven2"
FETCHED = Path(__file__).parent.parent / "build" / "peers" / "jars"
_TIMEOUT_S = 60
_NAMES = {"m": "http://maven.apache.org/POM/4.0.0"}


class Artifact(NamedTuple):
    group: str
    name: str
    version: str

    @property
    def address(self) -> str:
        folder = f"{CENTRAL}/{self.group.replace('.', '/')}/{self.name}/{self.version}"
        return f"{folder}/{self.name}-{self.version}"


def newest(group: str, name: str, version_max: str) -> Artifact:
    """The newest version that is there and not above this one."""
    listed = _read(f"{CENTRAL}/{group.replace('.', '/')}/{name}/maven-metadata.xml").decode()
    versions = re.findall(r"<version>([^<]+)</version>", listed)
    fitting = [version for version in versions if _rank(version) <= _rank(version_max)]
    if not fitting:
        raise NotMeasured(f"{CENTRAL} has no {name} up to {version_max}")
    return Artifact(group, name, max(fitting, key=_rank))


def _rank(version: str) -> tuple[list[int], int, str]:
    """A release stands behind its own previews."""
    numbers, _, preview = version.partition("-")
    parts = [int(part) if part.isdigit() else 0 for part in numbers.split(".")]
    return parts, 0 if preview else 1, preview


def needed_by(artifact: Artifact) -> Iterator[Artifact]:
    """What stands in its pom for running it, not for testing it."""
    pom = ElementTree.fromstring(_read(f"{artifact.address}.pom"))
    for each in pom.iterfind("m:dependencies/m:dependency", _NAMES):
        texts = {tag: each.findtext(f"m:{tag}", "", _NAMES) for tag in ("scope", "version")}
        if texts["scope"] in ("", "compile", "runtime"):
            group, name = (
                each.findtext(f"m:{tag}", "", _NAMES) for tag in ("groupId", "artifactId")
            )
            yield newest(group, name, texts["version"])


def jar(artifact: Artifact) -> Path:
    file = FETCHED / f"{artifact.name}-{artifact.version}.jar"
    if not file.exists():
        content = _read(f"{artifact.address}.jar")
        expected = _read(f"{artifact.address}.jar.sha1").decode().split()[0]
        # Maven's own checksum: it tells damage, not malice, and the connection tells that.
        if hashlib.sha1(content, usedforsecurity=False).hexdigest() != expected:
            raise NotMeasured(f"{artifact.address}.jar came damaged")
        FETCHED.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_bytes(content)
        partial.rename(file)
    return file


def _read(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read()
    except urllib.error.HTTPError as error:
        raise NotMeasured(f"{address}: {error.code} {error.reason}") from None
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise NotMeasured(f"Maven Central is not reached: {reason}") from None
    return content
