"""The broker: everything that is made once and the order in which it starts and stops."""

import asyncio
import base64
from collections.abc import Callable
from typing import NamedTuple

from semel.broker import log
from semel.broker.answer import Call
from semel.broker.config import BrokerConfig
from semel.broker.connection import Connection
from semel.broker.housekeeping import Housekeeping
from semel.broker.lookup import Lookup
from semel.broker.metrics import Metrics
from semel.broker.server import Server
from semel.broker.turns import Turns
from semel.broker.waiting_room import WaitingRoom
from semel.groups.settings import GroupSettings
from semel.journal.device import Device
from semel.journal.journal import Journal
from semel.journal.settings import JournalSettings
from semel.lane.lane import Lane, LaneSettings
from semel.transactions.commands import TransactionSettings
from semel.transactions.late_requests import LateRequests
from semel.types import TopicPartition
from semel.world import Clock, Randomness

FRAME_SIZE_MAX = 2 * 2**20
"""Bytes. Batches of one request share a frame up to this size."""


class Storage(NamedTuple):
    """What the broker says about the disk it is on."""

    folder: str
    disk_bytes: Callable[[], tuple[int, int]]
    """Total and usable."""


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        device: Device,
        storage: Storage,
        clock: Clock,
        randomness: Randomness,
        advertised: tuple[str, int] | None = None,
    ) -> None:
        """Opens the journal and replays it. Raises CorruptJournal or FolderInUse."""
        self.config = config
        self.metrics = Metrics()
        self._advertised = advertised
        self._storage = storage
        journal_settings = JournalSettings(
            segment_bytes=config.journal_segment_bytes,
            flush_interval_ms=config.log_flush_interval_ms,
            group_commit=config.journal_group_commit,
            tail_bytes=config.journal_tail_bytes,
        )
        journal = Journal.open(device, journal_settings)
        self.lane = Lane(journal, lane_settings(config), clock, randomness)
        self.frame_size_max = min(FRAME_SIZE_MAX, journal_settings.payload_bytes_max // 2)
        self.batch_size_most = journal_settings.payload_bytes_max // 4
        self.waiting_room = WaitingRoom(self.lane, self.complain)
        self.late_requests = LateRequests()
        self.turns = Turns()
        self.lookup = Lookup(journal, self.turns)
        self._unreadable: set[TopicPartition] = set()
        self._failed: asyncio.Future[None] | None = None
        self._server: Server | None = None

    async def start(self, tasks: asyncio.TaskGroup) -> Server:
        """Ready to take connections: each needs a `Connection(server)` as its protocol."""
        self._failed = asyncio.get_running_loop().create_future()
        tasks.create_task(self._fail())
        await self.lane.start(self._on_failure, self._warn)
        self._server = Server(self, tasks)
        tasks.create_task(Housekeeping(self, self._server).run())
        return self._server

    def close(self) -> None:
        """Let nothing more in and end all connections, before the tasks of the broker end."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Close, write down what is there, and give the folder free."""
        self.close()
        await self.lane.journal.close()

    def connection(self) -> Connection:
        assert self._server is not None, "start the broker first"
        return Connection(self._server)

    @property
    def connection_count(self) -> int:
        return self._server.connection_count if self._server else 0

    @property
    def reply_room_bytes(self) -> int:
        """How much a reply may hold until its client has read it; more if it cannot be less."""
        unsent_bytes = self._server.unsent_bytes if self._server else 0
        return max(0, self.config.queued_max_response_bytes - unsent_bytes)

    @property
    def cluster_id(self) -> str:
        return base64.urlsafe_b64encode(self.lane.state.cluster_id).decode().rstrip("=")

    @property
    def data_folder(self) -> str:
        return self._storage.folder

    def disk_bytes(self) -> tuple[int, int]:
        return self._storage.disk_bytes()

    def address_for(self, call: Call) -> tuple[str, int]:
        """Where this client finds the broker: the address it came to, unless one is advertised."""
        return self._advertised or call.peer.listener

    def found_unreadable(self, partition: TopicPartition, error: Exception) -> None:
        """Say it once: its readers will ask again and again."""
        if partition not in self._unreadable:
            self._unreadable.add(partition)
            log.warning("a partition cannot be read", partition=str(partition), reason=str(error))

    def complain(self, message: str, error: Exception) -> None:
        """Tell of an error of our own. It ends the broker only if it left a step half done."""
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
        self.lane.end_if_torn(error)

    def _warn(self, warning: str) -> None:
        """Tell what the journal has to say, which is mostly about the disk."""
        _, usable = self.disk_bytes()
        log.warning(warning, free_bytes=usable)

    def _on_failure(self, error: BaseException) -> None:
        assert self._failed is not None
        self.close()
        if not self._failed.done():
            self._failed.set_exception(error)

    async def _fail(self) -> None:
        """A failed write or sync ends the broker: what the disk holds is no longer known."""
        assert self._failed is not None
        await self._failed


def lane_settings(config: BrokerConfig) -> LaneSettings:
    return LaneSettings(
        groups=GroupSettings(
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            member_count_max=config.group_max_size,
            offset_metadata_size_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        ),
        offsets_partition_count=config.offsets_topic_num_partitions,
        transactions=TransactionSettings(
            timeout_ms_max=config.transaction_max_timeout_ms,
        ),
        transactions_partition_count=config.transaction_state_log_num_partitions,
    )
