"""What a run has found, as it is kept: a JSON file of which the page and its plots are made."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self


class Row(NamedTuple):
    """One cell of the tables: one server, in one setting."""

    measure: str
    subject: str
    """One of `TITLES`."""
    client: str
    settings: Mapping[str, int]
    values: Mapping[str, Sequence[float]]
    """By turn; percentiles are taken over the answers of all turns."""

    def value(self, name: str) -> float:
        return statistics.median(self.values[name])


class Results(NamedTuple):
    date: str
    quick: bool
    command: str
    commit: str
    plan: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    """Of servers and clients, by their names."""
    left_out: list[str]
    """What could not be measured, and why."""
    rows: list[Row]

    @classmethod
    def read(cls, file: Path) -> Self:
        found = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**found, "rows": [Row(**row) for row in found["rows"]]})

    def write(self, file: Path) -> None:
        kept = {**self._asdict(), "rows": [row._asdict() for row in self.rows]}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")

    def of(self, measure: str, client: str = "", **settings: int) -> dict[str, Row]:
        """By subject."""
        return {
            row.subject: row
            for row in self.rows
            if (row.measure, row.client, row.settings) == (measure, client, settings)
        }

    @property
    def clients(self) -> list[str]:
        """That took part, in their order."""
        return list(dict.fromkeys(row.client for row in self.rows if row.client))

    def settings(self, measure: str, name: str) -> Iterator[int]:
        """The values that a setting had, in their order."""
        rows = (row for row in self.rows if row.measure == measure)
        yield from dict.fromkeys(row.settings[name] for row in rows)
