"""The part of docs/command-line.md that tells each command, as its help does."""

import re
from collections import Counter
from typing import Final

from semel.cli.app import app

COMMON_MIN: Final = 15
"""Commands that have the same option, from which on it is told once."""


def commands_part() -> str:
    told = app.generate_docs(output_format="markdown", recursive=True, heading_level=1)
    # What it can do is on the left of the page, or in the outline of whatever shows it.
    _, _, commands = told.partition("**Commands**:")
    listed, _, details = commands.partition("\n## ")
    lines = f"## {details}".replace(" *[default: ()]*", "").replace(" *[default: False]*", "")
    counted = Counter(re.findall(r"^\* `-.*$", lines, re.MULTILINE))
    common = [line for line, count in counted.items() if count >= COMMON_MIN]
    for line in common:
        lines = lines.replace(f"{line}\n", "")
    # A heading under which nothing is left.
    lines = re.sub(r"\*\*Parameters\*\*:\n+(?=#|\Z)", "", lines)
    lines = re.sub(r"\n{3,}", "\n\n", lines)
    shared = "\n".join(common)
    return (
        f"{listed.rstrip()}\n\n## Options that most commands have\n\n{shared}\n\n{lines.strip()}\n"
    )
