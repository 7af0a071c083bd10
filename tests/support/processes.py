"""Processes that a test has not started itself."""

import time
from pathlib import Path

PATIENCE_S = 30.0


def until_ended(process_id: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"process {process_id} lives on")
