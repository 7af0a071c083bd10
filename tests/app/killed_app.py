"""An application that copies records, and dies at a chosen step of its deliveries.

`semel run killed_app:app` with the environment: SOURCE, TARGET and GROUP; PLAIN for a listener
without transactions; STEP and COUNT to be killed at the step's so-manieth time, or sent SIGNAL.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

from semel import App, AsyncConsumer, AsyncProducer, Outbox, Record

TARGET = os.environ["TARGET"]
SIGNAL = signal.Signals[os.environ.get("SIGNAL", "SIGKILL")]

app = App(transaction_timeout_ms=1_000)


def copy(record: Record, out: Outbox) -> None:
    out.send(TARGET, value=record.value, partition=record.partition)


if "PLAIN" not in os.environ:
    app.transactional(copy)
app.listener(
    os.environ["SOURCE"],
    group=os.environ["GROUP"],
    records_max=10,
    session_timeout_ms=1_000,
    heartbeat_interval_ms=200,
)(copy)


def die_at(owner: type, method: str, count: int, *, is_after: bool) -> None:
    """Be sent the signal before or after the so-manieth call of this method."""
    original: Callable[..., Any] = getattr(owner, method)
    calls = 0

    async def deadly(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not is_after:
            os.kill(os.getpid(), SIGNAL)
        result = await original(*arguments, **named)
        if calls == count and is_after:
            os.kill(os.getpid(), SIGNAL)
        return result

    setattr(owner, method, deadly)


STEPS = {
    "begun": (AsyncProducer, "begin_transaction", True),
    "sent": (AsyncProducer, "send_offsets_to_transaction", False),
    "offsets": (AsyncProducer, "send_offsets_to_transaction", True),
    "committing": (AsyncProducer, "commit_transaction", False),
    "committed": (AsyncProducer, "commit_transaction", True),
    "stored": (AsyncProducer, "flush", True),
    "polled": (AsyncConsumer, "poll", True),
}

if step := os.environ.get("STEP"):
    owner, method, is_after = STEPS[step]
    die_at(owner, method, int(os.environ["COUNT"]), is_after=is_after)
