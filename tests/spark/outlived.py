"""Steps of a transaction that take longer than the cluster keeps it open."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from semel.client.admin.transactions import describe
from semel.client.writing.transactional_writer import TransactionalWriter

_PAUSE_S = 0.01


async def timed_out(session: TransactionalWriter) -> None:
    """Wait until the cluster has rolled the transaction back, which gives the id a new epoch."""
    while True:
        found = await describe(session._cluster, session.transactional_id)
        is_later = found.producer_epoch > session.producer.producer_epoch
        if is_later and found.state == "CompleteAbort":
            return
        await asyncio.sleep(_PAUSE_S)


def delay(
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    until: Callable[[TransactionalWriter], Awaitable[None]],
    *,
    times: int = 1,
) -> None:
    """Let this step of the next transactions of this process wait for something to happen."""
    original = getattr(TransactionalWriter, step)
    left = iter(range(times))

    async def delayed(session: TransactionalWriter, *arguments: Any) -> Any:
        if next(left, None) is not None:
            if step == "write":
                # A part of it comes before.
                (first, *others) = arguments[0]
                await original(session, [first])
                arguments = (others,)
            await until(session)
        return await original(session, *arguments)

    monkeypatch.setattr(TransactionalWriter, step, delayed)
