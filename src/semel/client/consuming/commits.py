"""Commits of a consumer, one after the other, and what their refusals mean."""

import asyncio
from collections.abc import Callable, Mapping

from semel.client.consuming.actions import NOBODY, Identity
from semel.client.consuming.attendance import Attendance
from semel.client.consuming.coordination import Coordination
from semel.client.consuming.positions import Position
from semel.client.consuming.refusals import CommitFailed
from semel.errors import (
    IllegalGeneration,
    RebalanceInProgress,
    RequestError,
    SemelError,
    UnknownMemberId,
)
from semel.types import TopicPartition

Committable = Mapping[TopicPartition, Position]


class Commits:
    def __init__(self, coordination: Coordination, attendance: Callable[[], Attendance | None]):
        self._coordination = coordination
        self._attendance = attendance
        self._turn = asyncio.Lock()

    async def commit(self, offsets: Committable, timeout_ms: int) -> None:
        """Later ones wait for earlier ones, so that the last one asked for holds."""
        async with self._turn:
            if not offsets:
                return
            identity = self._identity()
            try:
                await self._coordination.commit(offsets, identity, timeout_ms)
            except RequestError as error:
                raise self._judged(identity, error) from error

    def _identity(self) -> Identity:
        attendance = self._attendance()
        if attendance is None:
            return NOBODY
        membership = attendance.membership
        if membership.fatal is not None:
            raise membership.fatal
        if not membership.is_member:
            raise CommitFailed("the consumer is not in its group at the moment")
        return membership.identity

    def _judged(self, identity: Identity, error: RequestError) -> SemelError:
        attendance = self._attendance()
        if attendance is None:
            return error
        is_refused_as_member = isinstance(error, IllegalGeneration | UnknownMemberId)
        if is_refused_as_member and not attendance.membership.is_settled(identity):
            # It speaks as whom it was before the rebalance that is under way.
            return RebalanceInProgress(f"the group rebalances: {error}")
        attendance.membership.beaten(identity, error)
        attendance.wake()
        return CommitFailed(str(error)) if is_refused_as_member else error
