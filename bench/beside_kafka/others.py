"""How much of the machine was not ours while something was measured."""

import os
import time
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Others:
    """From now on. Asked when all processes that were started meanwhile have ended."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._before_s = _processes_s() - _own_s()

    def percent(self) -> float:
        """Of the cores, taken by other programs. The kernel's work is left out, as it does not say
        for whom it is done."""
        taken_s = _processes_s() - _own_s() - self._before_s
        cores_s = (time.perf_counter() - self._started) * len(os.sched_getaffinity(0))
        return 100 * max(taken_s, 0.0) / cores_s


def _processes_s() -> float:
    """Processor time of all programs."""
    first, *_ = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    user, nice = map(int, first.split()[1:3])
    return (user + nice) / _TICKS_PER_S


def _own_s() -> float:
    """Of this process, and of those of its children that have ended."""
    times = os.times()
    return times.user + times.children_user
