"""Retries: what is tried again, what is not, and when it ends."""

import asyncio

import pytest

from semel.client.cluster.calls import in_words, refusal, retrying, together
from semel.errors import (
    InvalidTopic,
    NetworkException,
    NotController,
    RequestError,
    UnknownServerError,
    UnknownTopicOrPartition,
)


class Attempts:
    """Refuses with each of the errors in turn, then succeeds."""

    def __init__(self, *errors: RequestError) -> None:
        self._errors = list(errors)
        self.count = 0
        self.relearned = 0

    async def attempt(self) -> str:
        self.count += 1
        if self._errors:
            raise self._errors.pop(0)
        return "done"

    async def relearn(self) -> None:
        self.relearned += 1
        if self.relearned == 1:
            raise NetworkException("nobody is there to ask")


def test_passing_refusals_are_retried_and_so_is_learning_what_changed() -> None:
    attempts = Attempts(NotController("moved"), NetworkException("gone"))
    result = asyncio.run(retrying(attempts.attempt, timeout_ms=10_000, between=attempts.relearn))
    assert result == "done"
    assert (attempts.count, attempts.relearned) == (3, 3)


def test_a_final_refusal_is_raised_at_once() -> None:
    attempts = Attempts(InvalidTopic("no"))
    with pytest.raises(InvalidTopic):
        asyncio.run(retrying(attempts.attempt, timeout_ms=10_000))
    assert attempts.count == 1


def test_without_time_left_a_passing_refusal_is_final() -> None:
    attempts = Attempts(NotController("moved"))
    with pytest.raises(NotController):
        asyncio.run(retrying(attempts.attempt, timeout_ms=0))


def test_several_jobs_fail_as_the_first_that_fails_and_end_together() -> None:
    ended = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        raise NotController("moved")

    with pytest.raises(NotController):
        asyncio.run(together([waits(), fails()]))
    assert ended == ["waits"]


def test_a_refusal_says_what_was_refused_and_why() -> None:
    assert in_words(UnknownTopicOrPartition) == "unknown topic or partition"
    assert str(refusal(3, "topic a")) == "topic a: unknown topic or partition"
    assert str(refusal(37, "topic a", "Topic 'a' is full.")) == "Topic 'a' is full."
    assert str(refusal(37, "topic a", "Too many.")) == "topic a: Too many."
    unnamed = refusal(9999, "topic a")
    assert isinstance(unnamed, UnknownServerError)
    assert str(unnamed) == "topic a: error code 9999"
