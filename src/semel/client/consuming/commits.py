"""Commits of a consumer, one after the other, and what their refusals mean."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from semel.client.cluster.metadata import TopicRemade
from semel.client.cluster.offsets import as_committable
from semel.client.connecting.topic_ids import NO_ID
from semel.client.consuming.actions import NOBODY, MemberIdentity
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.membership_loop import MembershipLoop
from semel.client.consuming.partition import Position, as_topic_partitions
from semel.client.consuming.positions import Positions
from semel.client.consuming.refusals import CommitFailed
from semel.client.consuming.settings import ConsumerSettings
from semel.errors import (
    FencedInstanceId,
    IllegalGeneration,
    RebalanceInProgress,
    RequestError,
    RequestTimedOut,
    SemelError,
    UnknownMemberId,
)
from semel.types import TopicPartition

Offsets = Mapping[TopicPartition, int]
OnDone = Callable[[Offsets, SemelError | None], object]

_OF_MEMBERS = (FencedInstanceId, IllegalGeneration, RebalanceInProgress, UnknownMemberId)
"""What tells of the member; any other refusal tells of the commit only."""


class Commits:
    def __init__(
        self,
        coordination: GroupCoordination,
        positions: Positions,
        settings: ConsumerSettings,
        membership_loop: Callable[[], MembershipLoop | None],
        report: Callable[[SemelError], object],
    ) -> None:
        self._coordination = coordination
        self._positions = positions
        self._settings = settings
        self._membership_loop = membership_loop
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._automatic_last: dict[TopicPartition, Position] = {}
        self._is_forgone = False
        self._wait_until_next()

    def offsets(self, offsets: Offsets | None) -> Mapping[TopicPartition, Position]:
        """What is to be committed: this, or all that was handed out by now."""
        if offsets is None:
            return self._positions.delivered()
        as_topic_partitions(offsets)
        ids = self._positions.topic_ids()
        return {
            partition: Position(offset, topic_id=ids.get(partition, NO_ID))
            for partition, offset in as_committable(offsets).items()
        }

    async def commit(
        self, offsets: Mapping[TopicPartition, Position], timeout_ms: int | None = None
    ) -> None:
        """Later ones wait for earlier ones, so that the last one asked for holds."""
        if not offsets:
            return
        timeout_ms = timeout_ms or self._settings.block_timeout_ms
        # Taken before it waits: in a later generation another may have the partitions, and this
        # member would be believed all the same.
        identity = self._identity()
        try:
            async with asyncio.timeout(timeout_ms / 1000), self._lock:
                await self._coordination.commit(offsets, identity, timeout_ms)
        except TimeoutError:
            raise RequestTimedOut(f"earlier commits took all of {timeout_ms} ms") from None
        except RequestError as error:
            raise self._judged(identity, error) from error

    def later(
        self, offsets: Mapping[TopicPartition, Position], on_done: OnDone | None
    ) -> Coroutine[Any, Any, None]:
        async def work() -> None:
            outcome: SemelError | None = None
            try:
                await self.commit(offsets)
            except SemelError as error:
                outcome = error
            if on_done is None:
                return
            plain = {partition: position.offset for partition, position in offsets.items()}
            try:
                on_done(plain, outcome)
            except Exception as error:  # noqa: BLE001 - a callback must not end the consumer.
                self._loop.call_exception_handler(
                    {"message": "a commit callback failed", "exception": error}
                )

        return work()

    # By itself

    @property
    def is_due(self) -> bool:
        return self._settings.enable_auto_commit and self._loop.time() >= self._due_at_s

    def forgo(self) -> None:
        """The application has failed at what it was handed: that is not done."""
        self._is_forgone = True

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Others may have committed for these since."""
        for partition in partitions:
            self._automatic_last.pop(partition, None)

    def _wait_until_next(self) -> None:
        self._due_at_s = self._loop.time() + self._settings.auto_commit_interval_ms / 1000

    def automatic(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Commits what was handed out before this call, however late it is awaited."""
        self._wait_until_next()
        offsets = self._positions.delivered(partitions)
        is_wanted = self._settings.enable_auto_commit and not self._is_forgone

        async def work() -> None:
            if is_wanted and any(
                self._automatic_last.get(each) != offsets[each] for each in offsets
            ):
                # What is refused is committed the next time, or by whoever has it then.
                try:
                    await self.commit(offsets, self._settings.request_timeout_ms)
                    self._automatic_last |= offsets
                except SemelError as error:
                    # What was read of a topic that is gone need not be remembered.
                    if _is_for_good(error) and not isinstance(error, TopicRemade):
                        self._report(error)

        return work()

    # As whom

    def _identity(self) -> MemberIdentity:
        membership_loop = self._membership_loop()
        if membership_loop is None:
            return NOBODY
        membership = membership_loop.membership
        if membership.fatal is not None:
            raise membership.fatal
        if not membership.is_member:
            raise CommitFailed("the consumer is not in its group at the moment")
        return membership.identity

    def _judged(self, identity: MemberIdentity, error: RequestError) -> SemelError:
        membership_loop = self._membership_loop()
        if membership_loop is None:
            return error
        is_refused_as_member = isinstance(error, IllegalGeneration | UnknownMemberId)
        if is_refused_as_member and not membership_loop.membership.is_settled(identity):
            # It speaks as whom it was before the rebalance that is under way.
            return RebalanceInProgress(f"the group rebalances: {error}")
        if isinstance(error, _OF_MEMBERS):
            membership_loop.membership.beaten(identity, error)
            membership_loop.wake()
        return CommitFailed(str(error)) if is_refused_as_member else error


def _is_for_good(error: SemelError) -> bool:
    return (
        isinstance(error, RequestError)
        and not error.retriable
        and not isinstance(error, _OF_MEMBERS)
    )
