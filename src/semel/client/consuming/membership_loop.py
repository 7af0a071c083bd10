"""A membership on an asyncio loop: it joins, keeps its place by heartbeats, and leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from semel.client.consuming.actions import Join, Learn, Leave, Sync, Tell
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.membership import Membership, Phase
from semel.client.consuming.reach import Reach
from semel.client.consuming.settings import ConsumerSettings
from semel.errors import MemberIdRequired, RequestError, SemelError


class MembershipLoop:
    def __init__(
        self,
        membership: Membership,
        coordination: GroupCoordination,
        settings: ConsumerSettings,
        count_partitions: Callable[[Collection[str]], Awaitable[Mapping[str, int]]],
        notify: Callable[[], object],
        report: Callable[[SemelError], object],
    ) -> None:
        self.membership = membership
        self._coordination = coordination
        self._settings = settings
        self._count_partitions = count_partitions
        self._notify = notify
        self._reach = Reach(settings.block_timeout_ms, report)
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._polled_at_s = self._loop.time()
        self._is_polling = False

    def wake(self) -> None:
        """Something has changed, so that something may be due."""
        self._changed.set()

    def polling(self, is_polling: bool) -> None:
        """The application begins to wait for records, or has got some."""
        self._is_polling = is_polling
        self._polled_at_s = self._loop.time()
        if is_polling and self.membership.polled():
            self.wake()

    def told(self, tell: Tell) -> None:
        self.membership.told(tell)
        self.wake()

    @property
    def is_quiet(self) -> bool:
        """Whether the application has nothing to be told."""
        return self.membership.phase is Phase.STABLE or self.membership.due_tell() is None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._act())
            tasks.create_task(self._beat())

    async def _act(self) -> None:
        pause_ms = self._settings.backoff_first_ms
        while True:
            self._changed.clear()
            action = self.membership.due()
            if action is None or isinstance(action, Tell):
                self._notify()
                await self._changed.wait()
                continue
            try:
                with self._reach.attempt():
                    await self._do(action)
                pause_ms = self._settings.backoff_first_ms
            except SemelError as error:
                self.membership.refused(error)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, self._settings.backoff_max_ms)

    async def _do(self, action: Join | Learn | Sync | Leave) -> None:
        membership, coordination = self.membership, self._coordination
        match action:
            case Join():
                membership.joining()
                reply = await coordination.join(action)
                if reply.error_code == MemberIdRequired.code:
                    membership.named(reply.member_id)
                else:
                    membership.joined(reply)
            case Learn():
                membership.learned(await self._count_partitions(action.topics))
            case Sync():
                membership.synced(await coordination.sync(action))
            case Leave():
                try:
                    await coordination.leave(action.member_id)
                except SemelError:
                    # Its session will end by itself.
                    pass
                finally:
                    membership.left()

    async def _beat(self) -> None:
        settings = self._settings
        while True:
            await asyncio.sleep(settings.heartbeat_interval_ms / 1000)
            away_ms = (self._loop.time() - self._polled_at_s) * 1000
            if not self._is_polling and away_ms > settings.max_poll_interval_ms:
                self.membership.overslept()
                self.wake()
            if not self.membership.may_beat:
                continue
            identity = self.membership.identity
            try:
                await self._coordination.beat(identity)
            except RequestError as error:
                self.membership.beaten(identity, error)
                self.wake()
