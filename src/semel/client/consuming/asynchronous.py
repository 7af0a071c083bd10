"""`AsyncConsumer`: the consumer on the caller's own asyncio loop."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from semel.client.consuming.record import Record
from semel.client.consuming.settings import ConsumerOptions, settings_of
from semel.client.producing.coordination import GroupMetadata
from semel.errors import SemelError
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Listener = Callable[[Sequence[TopicPartition]], Awaitable[object] | object]
Offsets = Mapping[TopicPartition, int]


class AsyncConsumer:
    """Reads the partitions that its group gives it, or those it is assigned by hand."""

    def __init__(
        self,
        bootstrap_servers: str,
        group: str | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._settings = settings_of(group, options)

    async def start(self) -> None:
        """Begin; `async with` does so too."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit if that is automatic, and leave the group; a static member stays in it."""
        raise NotImplementedError

    async def subscribe(
        self,
        topics: str | Collection[str] | re.Pattern[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Join the group for these topics, or all whose names match a pattern.

        The callbacks are called by `poll`, never while the application works on records:
        `on_revoked` while the partitions are still its own, `on_lost` (or `on_revoked` if there
        is none) when they may be another's already, `on_assigned` before their first record.
        """
        raise NotImplementedError

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        raise NotImplementedError

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, without the group's say."""
        raise NotImplementedError

    async def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[Record]:
        """The next records, as soon as there are any; none if there are none in time."""
        raise NotImplementedError

    async def poll_arrow(
        self,
        timeout_ms: float = 1_000,
        max_records: int | None = None,
        columns: Collection[str] | None = None,
    ) -> "pa.RecordBatch":
        """As `poll`, as an Arrow batch with the columns of `semel.read`; it may have no rows."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """The next record, waited for without end; the ones before it count as done."""
        raise NotImplementedError

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out."""
        raise NotImplementedError

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at this offset."""
        raise NotImplementedError

    async def seek_to_beginning(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on at the first record of these partitions; of all, if none is named."""
        raise NotImplementedError

    async def seek_to_end(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on behind the last record that may be read."""
        raise NotImplementedError

    async def seek_to_time(
        self, timestamp_ms: int, partitions: Collection[TopicPartition] | None = None
    ) -> None:
        """Go on at the first record of this time or later, or at the end if there is none."""
        raise NotImplementedError

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions until they are resumed."""
        raise NotImplementedError

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out records of these partitions again."""
        raise NotImplementedError

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or what was handed out; CommitFailed if it was shut out."""
        raise NotImplementedError

    def commit_later(
        self,
        offsets: Offsets | None = None,
        on_done: Callable[[Offsets, SemelError | None], object] | None = None,
    ) -> None:
        """As `commit`, without waiting; later ones are sent after earlier ones."""
        raise NotImplementedError

    async def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """What the group has committed of these partitions, and of its own if none is named."""
        raise NotImplementedError

    async def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition has between its position and its end."""
        raise NotImplementedError

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        raise NotImplementedError

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Those of them that are paused."""
        raise NotImplementedError

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        raise NotImplementedError

    @property
    def membership(self) -> GroupMetadata:
        """Who reads, for `send_offsets_to_transaction`; generation -1 outside of a group."""
        raise NotImplementedError
