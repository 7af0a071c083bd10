"""Hooks of MkDocs: what lies beside docs/ becomes a page too, and links are as GitHub follows them.

In the repository a link may lead to any file. On the site those that lead to pages do so, and of
the others only their words are left.
"""

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File
from pymdownx.slugs import slugify

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = "docs"

BESIDE: Final = {
    "GUARANTEES.md": "guarantees.md",
    "COMPATIBILITY.md": "compatibility.md",
    "ARCHITECTURE.md": "architecture.md",
    "SECURITY.md": "reporting.md",
    "CHANGELOG.md": "changes.md",
    "README.md": "readme.md",
}
"""Pages beside docs/ that have a place on the site, if they exist."""

SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Start": ("index.md", "readme.md"),
    "Pipelines": ("pipelines.md", "recipes.md", "from-kafka.md", "tables.md"),
    "Client": ("producer.md", "consumer.md", "admin.md", "secured-clusters.md"),
    "Applications": ("applications.md",),
    "Operations": (
        "operations.md",
        "metrics.md",
        "security.md",
        "access.md",
        "quotas.md",
        "access.md",
        "retention.md",
        "data-folder.md",
        "workers.md",
        "cluster.md",
    ),
    "Reference": ("settings.md", "command-line.md", "compatibility.md", "beside-kafka.md"),
    "How it works": ("guarantees.md", "architecture.md", "changes.md", "reporting.md"),
}
"""Those that there are. Others come under Operations, or Decisions, behind these."""
FOR_THE_REST: Final = "Operations"

_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


def _title(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    docs = ROOT / DOCS
    there = {page.name for page in docs.glob("*.md")}
    there |= {name for source, name in BESIDE.items() if (ROOT / source).exists()}
    sections = {
        title: [name for name in names if name in there] for title, names in SECTIONS.items()
    }
    placed = {name for names in sections.values() for name in names}
    sections[FOR_THE_REST] += sorted(there - placed)
    decisions = sorted((docs / "decisions").glob("*.md"))
    nav: list[dict[str, Any]] = [{title: names} for title, names in sections.items()]
    nav.append(
        {"Decisions": [{_title(each): f"decisions/{each.name}"} for each in decisions]},
    )
    config.nav = nav
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    for source, name in BESIDE.items():
        if (ROOT / source).exists():
            content = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    source = page.file.src_uri
    by_name = {name: its_source for its_source, name in BESIDE.items()}
    folder = "" if source in by_name else posixpath.dirname(f"{DOCS}/{source}")

    def linked(found: re.Match[str]) -> str:
        sign, words, link = found.groups()
        path, hash_sign, anchor = link.partition("#")
        if "://" in link or not path:
            return found[0]
        target = posixpath.normpath(posixpath.join(folder, path))
        page_name = BESIDE.get(target)
        if page_name is None and target.startswith(f"{DOCS}/"):
            page_name = target.removeprefix(f"{DOCS}/")
        if page_name is None:
            return words
        relative = posixpath.relpath(page_name, posixpath.dirname(source) or ".")
        return f"{sign}[{words}]({relative}{hash_sign}{anchor})"

    pieces = _FENCE.split(markdown)
    # Every other one is code, which is left as it is.
    pieces[::2] = [_with_room_for_lists(_LINK.sub(linked, piece)) for piece in pieces[::2]]
    return "".join(pieces)


def _with_room_for_lists(text: str) -> str:
    """A list that follows a paragraph at once is one on GitHub, and to MkDocs behind a blank
    line."""
    lines: list[str] = []
    for line in text.split("\n"):
        is_item = re.match(r"(?:[-*]|\d+\.) ", line) is not None
        before = lines[-1] if lines else ""
        in_list = re.match(r"(?:[-*]|\d+\.) |\s", before) is not None
        if is_item and before and not in_list:
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
