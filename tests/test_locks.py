"""The locks: every package that is asked for, at one version, with the hashes of its files."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("group", ["dev", "release"])
def test_a_lock_has_all_that_is_asked_for_with_hashes_and_names_no_host(group: str) -> None:
    text = (ROOT / f"requirements-{group}.lock").read_text()
    locked = re.findall(r"^([\w.-]+)==(\S+)(.*(?:\n +--hash=\S+.*)*)", text, re.MULTILINE)
    assert all("--hash=sha256:" in rest for _, _, rest in locked)
    assert "://" not in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["dependency-groups"][group]]
    if group == "dev":
        wanted += project["project"]["dependencies"]
    names = {plain(re.split(r"[\s\[<>=!;]", each)[0]) for each in wanted}
    assert names <= {plain(name) for name, _, _ in locked}
