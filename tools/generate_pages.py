"""Writes the parts of pages that tell what the code has; with --check, only compares.

A part stands between `<!-- NAME: written by tools/generate_pages.py -->` and `<!-- /NAME -->`. All
around it is written by hand.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from grafana_dashboard import dashboard
from page_of_commands import commands_part
from page_of_metrics import alerts_part, metrics_part
from page_of_settings import options_part, settings_part

ROOT: Final = Path(__file__).parent.parent

PARTS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "docs/command-line.md": {"commands": commands_part},
    "docs/metrics.md": {"metrics": metrics_part, "alerts": alerts_part},
    "docs/settings.md": {
        "options": options_part,
        "broker": lambda: settings_part("broker"),
        "topic": lambda: settings_part("topic"),
    },
}
WHOLE: Final[Mapping[str, Callable[[], str]]] = {"deploy/grafana/semel.json": dashboard}


def with_part(text: str, name: str, part: str) -> str:
    begin, end = f"<!-- {name}: written by tools/generate_pages.py -->", f"<!-- /{name} -->"
    pattern = f"{re.escape(begin)}\n.*?{re.escape(end)}"
    assert len(re.findall(pattern, text, re.DOTALL)) == 1, name
    return re.sub(pattern, lambda _: f"{begin}\n{part}\n{end}", text, flags=re.DOTALL)


def written(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def pages() -> dict[Path, str]:
    """As they should be."""
    found = {ROOT / page: write() for page, write in WHOLE.items()}
    for page, parts in PARTS.items():
        text = written(ROOT / page)
        for name, write in parts.items():
            text = with_part(text, name, write())
        found[ROOT / page] = text
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one differs")
    check = parser.parse_args().check
    stale = {page: text for page, text in pages().items() if written(page) != text}
    for page, text in stale.items():
        name = page.relative_to(ROOT)
        if check:
            print(f"{name} is not what the code says; `make pages` writes it")
        else:
            page.write_text(text, encoding="utf-8")
            print(f"{name} written")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
