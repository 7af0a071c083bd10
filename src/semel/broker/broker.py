"""The broker: everything that is made once and the order in which it starts and stops."""

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from semel.access.principal import ANONYMOUS, FIRST_LISTENER, Caller
from semel.access.quotas import Entity
from semel.access.rate import Windows
from semel.access.rules import Rule
from semel.at_once import Runs
from semel.broker import log
from semel.broker.access_control import AccessControl
from semel.broker.across import Across
from semel.broker.audit import Audit
from semel.broker.census import Census
from semel.broker.config import BrokerConfig
from semel.broker.connection import Connection
from semel.broker.connection_on_store import ConnectionOnStore
from semel.broker.coordinators import Coordinators
from semel.broker.current_settings import CurrentSettings
from semel.broker.elsewhere import Elsewhere
from semel.broker.host import BrokerHost
from semel.broker.housekeeping import Housekeeping
from semel.broker.leading import Leading
from semel.broker.led_lanes import LedLanes
from semel.broker.metering import Metering
from semel.broker.metrics import Metrics
from semel.broker.neighbour import NOT_ADVERTISED, Advertised, Neighbour
from semel.broker.nodes import Nodes
from semel.broker.peers import Peers
from semel.broker.server import Server
from semel.broker.topics_over_lanes import TopicsOverLanes
from semel.broker.transactional import LateRequests
from semel.errors import StorageAway
from semel.journal.file.device import Device
from semel.journal.seam import Journal, Limits
from semel.lane.settling import NO_VOLUMES, Volumes
from semel.store.counting import Counted
from semel.types import TopicPartition
from semel.world import SPENT_NS, Clock, Randomness

if TYPE_CHECKING:
    from semel.broker.entrance import Entrance
    from semel.volumes.tiering import Tiering

FRAME_SIZE_MAX = 2 * 2**20
"""Bytes. Batches of one request share a frame up to this size."""


class Storage(NamedTuple):
    """What the broker says about the disk it is on."""

    folder: str
    disk_bytes: Callable[[], tuple[int, int]]
    """Total and usable."""
    folder_bytes: Callable[[], int] = lambda: 0
    """What all files of the folder take. Blocking: there may be thousands."""


class Shared(NamedTuple):
    """Lanes that lie where others can take them."""

    cluster_id: bytes
    limits: Limits
    stop_s: float
    """How long a broker that is asked to stop waits for the store."""
    lane_count: int = 1
    store: Counted | None = None
    """If it is known what is asked of it."""
    volumes: Callable[[int, Journal], Volumes] = lambda number, journal: NO_VOLUMES
    """Of a lane that was taken with this journal."""


class Workers(NamedTuple):
    """Lanes that are led by processes of this machine, each of which always leads the same."""

    lane_count: int
    numbers: tuple[int, ...]
    """Of those that are led by this one."""
    neighbours: tuple[Neighbour, ...]
    """The other processes."""


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        devices: Sequence[Device],
        storage: Storage,
        clock: Clock,
        randomness: Randomness,
        shared: Shared | None = None,
        tiering: "Tiering | None" = None,
        workers: Workers | None = None,
        advertised: Advertised = NOT_ADVERTISED,
    ) -> None:
        """Opens a lane on each device and replays it: all there are, or those of this one of the
        `workers`. Raises NewerFormat, CorruptJournal or FolderInUse, and ConfigError.

        Of lanes that are `shared` it leads none yet: it is told when to take them. With `tiering`
        the volumes of the others lie in a store, which has to be claimed before the start.
        """
        self.config = config
        """Its settings as they are now: what is set while it runs counts at once."""
        self.metrics = Metrics()
        self.server: Server | None = None
        """Once it has started."""
        self.audit = Audit(clock)
        self.metering = Metering(clock, SPENT_NS, _windows(config))
        self._storage = storage
        self._clock = clock
        self._randomness = randomness
        self._shared = shared
        self.is_shared: Final = shared is not None
        """Others can lead its lanes at any time."""
        numbers, lane_count = _lane_numbers(len(devices), shared, workers)
        self.lanes = LedLanes(lane_count)
        self.host = BrokerHost(self, randomness, shared)
        is_alone = shared is None and workers is None
        silent_s = None if is_alone else self.host.silent_s
        self.access = AccessControl(self.lanes, config, self.audit, silent_s)
        self.leading = Leading(self, clock, randomness, shared, tiering)
        self.journals = self.leading.journals
        """Of the lanes that it leads."""
        self.topics = TopicsOverLanes(self.lanes)
        self.coordinators = Coordinators(self.lanes, self.topics, self.leading.lane_settings)
        self.elsewhere = Elsewhere(config.node_id)
        self.nodes = Nodes(
            config.node_id,
            advertised,
            self.lanes,
            self.elsewhere,
            clock,
            is_shared=shared is not None,
            neighbours=() if workers is None else workers.neighbours,
        )
        self.peers = Peers(self)
        self.census: Census | None = None
        """If somebody may ask for metrics."""
        self.deadlines_changed = asyncio.Event()
        """Set when a step has brought a deadline before the next look at them."""
        payload_bytes_max = self.leading.payload_bytes_max
        self.frame_size_max = min(FRAME_SIZE_MAX, payload_bytes_max // 2)
        self.batch_size_most = payload_bytes_max // 4
        self.settings = CurrentSettings(self, config)
        self.leading.open_all(zip(numbers, devices, strict=True))
        if self.lanes.leads_catalogue:
            self.settings.recall_led()
        self._cluster_id = b"" if shared is None else shared.cluster_id
        self.late_requests = LateRequests()
        self.across = Across(self)
        self._unreadable: dict[TopicPartition, bool] = {}
        """Whether it is damaged; the store with its old data may only be away."""
        self._failed: asyncio.Future[None] | None = None
        self.settings.check_sizes(config)

    async def start(self, tasks: asyncio.TaskGroup) -> Server:
        """Ready to take connections: each needs a `Connection(server)` as its protocol."""
        self._failed = asyncio.get_running_loop().create_future()
        tasks.create_task(self._until_failure())
        await self.leading.start()
        self.server = Server(self, tasks)
        self.server.count_requests(is_needed=self.metering.limits_clients)
        for lane in self.lanes.led:
            self.across.lead(lane)
        tasks.create_task(Housekeeping(self, self.server).run())
        return self.server

    @property
    def runs(self) -> Runs:
        """They end with the broker."""
        assert self.server is not None, "start the broker first"
        return self.server.runs

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """It ends with the broker."""
        assert self.server is not None, "start the broker first"
        return self.server.start_task(work)

    def close(self) -> None:
        """Let nothing more in and end all connections, before the tasks of the broker end."""
        if self.server is not None:
            self.server.close()

    async def stop(self) -> None:
        """Close, write down what is there, and give the journals free."""
        self.close()
        await self.leading.stop()

    def connection(
        self, listener: str = FIRST_LISTENER, entrance: "Entrance | None" = None
    ) -> Connection:
        assert self.server is not None, "start the broker first"
        kind = ConnectionOnStore if self.is_shared else Connection
        return kind(self.server, listener, entrance)

    # What has changed

    def configure(self, config: BrokerConfig) -> None:
        """These count from now on."""
        self.config = config
        self.leading.configure(config)

    def hear_of_cluster(self, cluster_id: bytes) -> None:
        """Take the id of the cluster from whoever leads lane 0 of the same folder."""
        self._cluster_id = cluster_id

    def tell_change(self, caller: Caller, what: str, **details: object) -> None:
        """A change of topics or settings goes to the audit log, where it is known who makes it."""
        if self.access.is_on or caller.principal != ANONYMOUS:
            self.audit.changed(caller, what, **details)

    def users_changed(self, name: str) -> None:
        """Other workers have to know."""
        if self.topics.telling is not None:
            self.topics.telling.user(name)

    def rules_changed(self, rules: Iterable[Rule]) -> None:
        """Other workers have to know."""
        if self.topics.telling is not None:
            for rule in rules:
                self.topics.telling.rule(rule)

    def quotas_changed(self, entity: Entity) -> None:
        """Other workers have to know."""
        self.settings.look_at_quotas()
        if self.topics.telling is not None:
            self.topics.telling.quotas(entity)

    # What handlers ask

    def random_bytes(self, size: int) -> bytes:
        return self._randomness.token_bytes(size)

    @property
    def connection_count(self) -> int:
        return self.server.connection_count if self.server else 0

    @property
    def store(self) -> Counted | None:
        return None if self._shared is None else self._shared.store

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    @property
    def loop_time_s(self) -> float:
        return self.server.loop.time() if self.server else 0.0

    @property
    def reply_room_bytes(self) -> int:
        """How much a reply may hold until its client has read it; more if it cannot be less."""
        room = self.config.queued_max_response_bytes
        if self.server is not None:
            room -= self.server.unsent_bytes
        return room if room > 0 else 0  # noqa: FURB136 - a call less for each fetch.

    @property
    def cluster_id(self) -> str:
        if self.lanes.leads_catalogue:
            self._cluster_id = self.lanes.controller.view.cluster_id
        return base64.urlsafe_b64encode(self._cluster_id).decode().rstrip("=")

    @property
    def data_folder(self) -> str:
        return self._storage.folder

    def disk_bytes(self) -> tuple[int, int]:
        """Total and usable."""
        return self._storage.disk_bytes()

    def folder_bytes(self) -> int:
        """Blocking."""
        return self._storage.folder_bytes()

    @property
    def is_short_of_room(self) -> bool:
        return any(lane.duties.is_short_of_room for lane in self.lanes.led)

    # What goes wrong

    def found_unreadable(self, partition: TopicPartition, error: Exception) -> None:
        """Say it once: its readers will ask again and again."""
        if partition not in self._unreadable:
            log.warning("a partition cannot be read", partition=str(partition), reason=str(error))
        is_damaged = not isinstance(error, StorageAway)
        self._unreadable[partition] = is_damaged or self._unreadable.get(partition, False)

    @property
    def unreadable_count(self) -> int:
        """Of partitions that were found damaged since the start."""
        return sum(self._unreadable.values())

    def complain(self, message: str, error: Exception) -> None:
        """Tell of an error of our own."""
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def warn(self, warning: str) -> None:
        """Tell what the journal has to say, which is mostly about the disk."""
        _, usable = self.disk_bytes()
        if usable < 0:
            log.warning(warning)
        else:
            log.warning(warning, free_bytes=usable)

    def fail(self, error: BaseException) -> None:
        """A failed write or sync ends the broker: what the disk holds is no longer known."""
        assert self._failed is not None
        self.close()
        if not self._failed.done():
            self._failed.set_exception(error)

    async def _until_failure(self) -> None:
        assert self._failed is not None
        await self._failed


def _lane_numbers(
    device_count: int, shared: Shared | None, workers: Workers | None
) -> tuple[Sequence[int], int]:
    """Numbers of the lanes that are led from the start on, and how many lanes there are in all."""
    if workers is not None:
        return workers.numbers, workers.lane_count
    return range(device_count), device_count if shared is None else shared.lane_count


def _windows(config: BrokerConfig) -> Windows:
    return Windows(config.quota_window_num, config.quota_window_size_seconds * 1_000)
