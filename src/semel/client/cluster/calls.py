"""What the calls to a cluster share: refusals in words, another attempt, several calls at once."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from semel.errors import (
    BY_CODE,
    NONE,
    InvalidProducerEpoch,
    InvalidTransactionTimeout,
    ProducerFenced,
    RequestError,
    UnknownServerError,
)

_Result = TypeVar("_Result")

_PAUSE_FIRST_S = 0.05
_PAUSE_MAX_S = 1.0

# A coordinator that ends a transaction for its age raises the epoch as a successor would.
_OLD_EPOCH = "a newer producer has its id, or its transaction outlived its timeout"
_REASONS: Mapping[type[RequestError], str] = {
    ProducerFenced: _OLD_EPOCH,
    InvalidProducerEpoch: _OLD_EPOCH,
    InvalidTransactionTimeout: (
        "transaction_timeout_ms is more than the broker's transaction.max.timeout.ms"
    ),
}


def in_words(error: type[RequestError]) -> str:
    """`UnknownTopicOrPartition` as "unknown topic or partition"; with a reason, if it needs one."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", error.__name__).lower()
    reason = _REASONS.get(error)
    return name if reason is None else f"{name}: {reason}"


def refusal(code: int, subject: str = "", message: str | None = None) -> RequestError:
    """The error of this code; `subject` is what was asked for, `message` what the broker said."""
    error = BY_CODE.get(code)
    reason = message or (in_words(error) if error else f"error code {code}")
    # Some brokers name the subject in their message, others do not.
    name = re.escape(subject.rpartition(" ")[2])
    is_named = re.search(rf"(?<![\w-]){name}(?![\w-])", message or "") is not None
    sentence = reason if is_named or not name else f"{subject}: {reason}"
    return (error or UnknownServerError)(sentence)


def raise_for(code: int, subject: str = "", message: str | None = None) -> None:
    if code != NONE:
        raise refusal(code, subject, message)


async def retrying(
    attempt: Callable[[], Awaitable[_Result]],
    *,
    timeout_ms: int,
    between: Callable[[], Awaitable[object]] | None = None,
) -> _Result:
    """The result of the first attempt that is not refused for a passing reason.

    `between` runs before each further attempt, to learn what has changed; it may be refused too.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    pause_s = _PAUSE_FIRST_S
    is_refused = False
    while True:
        try:
            if is_refused and between is not None:
                await between()
            return await attempt()
        except RequestError as error:
            if not error.retriable or loop.time() + pause_s > deadline:
                raise
        is_refused = True
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)


async def together(jobs: Iterable[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """The results in order; the first failure cancels the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(job) for job in jobs]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in running]
