"""How much something does at once, counted and not timed: what does not grow may take no longer."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

OWN_BYTES = 4_000
"""That what is measured may differ by, whatever it does."""


class Work(NamedTuple):
    lines: int
    """That were executed; none of those that are compiled."""
    peak_bytes: int
    """That were held at once: a copy of many things is one line, and large."""

    def is_about(self, other: "Work") -> bool:
        """Neither is more than the other by what many things take."""
        return (
            max(self.lines, other.lines) <= 1.2 * min(self.lines, other.lines) + 50
            and max(self.peak_bytes, other.peak_bytes)
            <= 1.2 * min(self.peak_bytes, other.peak_bytes) + OWN_BYTES
        )


def work_of(step: Callable[[], object]) -> Work:
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    def peak_bytes() -> int:
        tracemalloc.start()
        try:
            step()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        peak = peak_bytes()
    finally:
        sys.settrace(before)
    return Work(lines, peak)
