"""What every test shares: properties are judged by their outcome, not by the clock."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from support import drawing as drawing

settings.load_profile("repeated")

# A shell has what it runs in the background ignore interrupts, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

SPARK = Path(__file__).parent / "spark"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with Spark are spread over the run.

    They take long and need both cores, so that two at once hold each other up, and one that is left
    for the end is waited for alone.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    others = [path for path in files if path.parent != SPARK]
    with_spark = [path for path in files if path.parent == SPARK]
    order: dict[Path, float] = {path: number for number, path in enumerate(others)}
    for number, path in enumerate(with_spark):
        order[path] = number * len(others) / len(with_spark) - 0.5
    items[:] = [item for path in sorted(files, key=order.__getitem__) for item in files[path]]
