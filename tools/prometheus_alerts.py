"""Reads the alert rules that lie in the repository."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml

ALERTS: Final = Path(__file__).parent.parent / "deploy" / "prometheus" / "alerts.yaml"


class Alert(NamedTuple):
    name: str
    query: str
    severity: str
    about: str


def alerts() -> Iterator[Alert]:
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            about = rule["annotations"]["description"]
            yield Alert(rule["alert"], rule["expr"], rule["labels"]["severity"], about)
