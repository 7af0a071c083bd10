"""The broker: everything that is made once and the order in which it starts and stops."""

import asyncio
import base64
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from semel.access.principal import ANONYMOUS, FIRST_LISTENER, Caller
from semel.access.quotas import Entity
from semel.access.rate import Windows
from semel.access.rules import Rule
from semel.broker import log
from semel.broker.absent_catalogue import AbsentCatalogue
from semel.broker.access_control import AccessControl
from semel.broker.across import Across
from semel.broker.audit import Audit
from semel.broker.census import Census
from semel.broker.config import BrokerConfig, about_settings
from semel.broker.connection import Connection
from semel.broker.connection_on_store import ConnectionOnStore
from semel.broker.coordinators import Coordinators
from semel.broker.elsewhere import Elsewhere
from semel.broker.forwarding import answer_forwarded
from semel.broker.housekeeping import Housekeeping
from semel.broker.lane_settings import lane_settings
from semel.broker.layered_config import ALL_BROKERS, LayeredConfig
from semel.broker.led_lanes import CONTROLLER, LedLanes
from semel.broker.lines import Lines
from semel.broker.metering import Metering
from semel.broker.metrics import Metrics
from semel.broker.neighbour import NOT_ADVERTISED, Advertised, Neighbour
from semel.broker.nodes import Nodes
from semel.broker.peers import Peers
from semel.broker.server import Server
from semel.broker.topics_over_lanes import TopicsOverLanes
from semel.broker.transactional import LateRequests
from semel.cluster.channel import Connect
from semel.cluster.hearing import Hearing
from semel.cluster.keys import KnownKey
from semel.cluster.messages import AnyAnswer, Forwarded, LaneCall
from semel.errors import ConfigError, JournalFull, StorageAway
from semel.journal.file.device import Device
from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.settings import JournalSettings
from semel.journal.seam import Journal, JournalAbandoned, Limits
from semel.lane.commands import LaneSettings
from semel.lane.contents import CONTENTS
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane
from semel.lane.leader import Leader, LedBy
from semel.lane.settling import NO_VOLUMES, Volumes
from semel.lane.topics import ConfigureBroker, EnforceRetention
from semel.store.counting import Counted
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from semel.volumes.making import MakesApart, MakesHere, VolumeMaker
from semel.volumes.store import DeviceVolumes
from semel.world import SPENT_NS, Clock, Randomness

if TYPE_CHECKING:
    from semel.broker.entrance import Entrance
    from semel.cluster.desk import Desk
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
    def __init__(  # noqa: PLR0915  All that is made once.
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
        self._static_config = config
        self.layers = LayeredConfig(config)
        self.config = config
        """Its settings as they are now: what is set while it runs counts at once."""
        self.metrics = Metrics()
        self._server: Server | None = None
        self.audit = Audit(clock)
        self.metering = Metering(clock, SPENT_NS, _windows(config))
        self._storage = storage
        self._clock = clock
        self._randomness = randomness
        self._journal_settings = JournalSettings(
            segment_bytes=config.journal_segment_bytes,
            flush_interval_ms=config.log_flush_interval_ms,
            group_commit=config.journal_group_commit,
            tail_bytes=config.journal_tail_bytes,
        )
        self._shared = shared
        self.is_shared: Final = shared is not None
        """Others can lead its lanes at any time."""
        self._tiering = tiering
        self._lane_settings = self._settings_of_lanes(config)
        numbers, lane_count = _lane_numbers(len(devices), shared, workers)
        self.lanes = LedLanes(lane_count)
        is_alone = shared is None and workers is None
        silent_s = None if is_alone else self._silent_s
        self.access = AccessControl(self.lanes, config, self.audit, silent_s)
        self.topics = TopicsOverLanes(self.lanes)
        self.coordinators = Coordinators(self.lanes, self.topics, self._lane_settings)
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
        self.node: Desk | None = None
        """Where other nodes are answered; None if there are none."""
        self.deadlines_changed = asyncio.Event()
        """Set when a step has brought a deadline before the next look at them."""
        self.journals: dict[int, FileJournal] = {}
        """Of the lanes that it leads."""
        self.journals_on_store: dict[int, Journal] = {}
        """Of lanes that others can take."""
        for number, device in zip(numbers, devices, strict=True):
            self.lanes.add(self._open(number, device))
        if self.lanes.leads_catalogue:
            self._recall()
        limits = self._journal_settings if shared is None else shared.limits
        payload_bytes_max = limits.payload_bytes_max
        self.frame_size_max = min(FRAME_SIZE_MAX, payload_bytes_max // 2)
        self.batch_size_most = payload_bytes_max // 4
        self._recalled: list[dict[str, str]] = [{}, {}]
        self._cluster_id = b"" if shared is None else shared.cluster_id
        self.late_requests = LateRequests()
        self.across = Across(self)
        self._heard_all_s = -math.inf
        """When it was last certain to lead lane 0, or had heard all that was said there."""
        self._unreadable: dict[TopicPartition, bool] = {}
        """Whether it is damaged; the store with its old data may only be away."""
        self._failed: asyncio.Future[None] | None = None
        self._check_sizes(config)

    def _check_sizes(self, config: BrokerConfig) -> None:
        """Raises ConfigError if a batch that is allowed would not fit into the journal."""
        if self.is_shared and config.message_max_bytes > self.batch_size_most:
            raise ConfigError(
                f"message.max.bytes={config.message_max_bytes}: on a store {self.batch_size_most} "
                "at most"
            )

    def _open(self, number: int, device: Device) -> Lane:
        journal = FileJournal.open(device, self._journal_settings, CONTENTS)
        try:
            lane = self._lane(number, journal, self._volumes_beside(number, device))
        except BaseException:
            # What cannot be replayed here may be replayed elsewhere, or mended.
            device.stop()
            raise
        self.journals[number] = journal
        return lane

    def _volumes_beside(self, number: int, device: Device) -> Volumes:
        if self._tiering is None:
            return volumes_on(device)
        assert isinstance(device, FileDevice)
        return Volumes(*self._tiering.volumes(number, device))

    def _settings_of_lanes(self, config: BrokerConfig) -> LaneSettings:
        settings = lane_settings(config, on_store=self.is_shared)
        if self._tiering is None:
            return settings
        # What will go by itself would fill the disk until it does.
        settling = settings.settling._replace(leaves_what_dies=False)
        return settings._replace(settling=settling)

    def _lane(
        self,
        number: int,
        journal: Journal,
        volumes: Volumes,
        followed: FollowedLane | None = None,
    ) -> Lane:
        return Lane(
            journal,
            self._lane_settings,
            self._clock,
            self._randomness,
            number,
            self.lanes.count,
            self.deadlines_changed,
            volumes,
            followed,
        )

    async def start(self, tasks: asyncio.TaskGroup) -> Server:
        """Ready to take connections: each needs a `Connection(server)` as its protocol."""
        self._failed = asyncio.get_running_loop().create_future()
        tasks.create_task(self._fail())
        for lane in self.lanes.led:
            await lane.start(self._on_failure, self.warn)
        if self.lanes.leads_catalogue:
            # A crash may have come between the lanes.
            self.topics.align(self.lanes.controller)
            if warning := self.access.warning():
                log.warning(warning)
        if self.config.retention_enforce:
            for lane in self.lanes.led:
                lane.submit(EnforceRetention())
        self._server = Server(self, tasks)
        self._server.count_requests(is_needed=self.metering.limits_clients)
        for lane in self.lanes.led:
            self.across.lead(lane)
        tasks.create_task(Housekeeping(self, self._server).run())
        return self._server

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """It ends with the broker."""
        assert self._server is not None, "start the broker first"
        self._server.start_task(work)

    def close(self) -> None:
        """Let nothing more in and end all connections, before the tasks of the broker end."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Close, write down what is there, and give the journals free."""
        self.close()
        stop_s = None if self._shared is None else self._shared.stop_s
        for lane in self.lanes.led:
            try:
                async with asyncio.timeout(stop_s):
                    await lane.close()
            except TimeoutError:
                log.warning("the store does not answer: another has to find out that this one left")

    def connection(
        self, listener: str = FIRST_LISTENER, entrance: "Entrance | None" = None
    ) -> Connection:
        assert self._server is not None, "start the broker first"
        kind = ConnectionOnStore if self.is_shared else Connection
        return kind(self._server, listener, entrance)

    # Lanes

    async def step_down(self, number: int) -> None:
        """Let another lead this lane; the process lives on, and may take it again."""
        lane = self.lanes.by_number[number]
        self._leave(lane)
        await lane.step_down()

    async def hand_over(self, lane: Lane, successor: int) -> None:
        """Let this node lead this lane, and lose nothing. Raises TimeoutError if the store does not
        answer; the lane is left all the same."""
        assert self._shared is not None
        self._retire(lane)
        try:
            async with asyncio.timeout(self._shared.stop_s):
                await lane.hand_over(successor)
            if lane.number == CONTROLLER and lane.may_confirm:
                # All of it is durable, and true until another says so.
                self.lanes.tell_of(lane.view.catalogue, lane.view.access)
                self.access.look()
        finally:
            self._leave(lane)

    def _retire(self, lane: Lane) -> None:
        """Decide nothing more there."""
        if not self.lanes.remove(lane):
            return
        self.journals.pop(lane.number, None)
        self.journals_on_store.pop(lane.number, None)
        if lane.number == CONTROLLER:
            self.topics.left_catalogue()
            self.elsewhere.left_here()

    def _leave(self, lane: Lane) -> None:
        self._retire(lane)
        if self._server is not None:
            self._server.lane_left(lane)
        lane.leave()
        self.across.leave(lane)

    async def take_lane(self, number: int, device: Device) -> None:
        """Lead this lane, with the state that its journal says.

        Law: it serves nobody before it is in line with the catalogue, nor does the catalogue before
        the other lanes are: a name must not lead to what a deleted topic has left.
        """
        lane = self._open(number, device)
        try:
            await lane.start(self._on_failure, self.warn)
            self._take(lane)
        except BaseException:
            del self.journals[number]
            await lane.step_down()
            raise

    async def take_journal(
        self, number: int, journal: Journal, leader: Leader, followed: FollowedLane | None
    ) -> Lane:
        """As `take_lane`, of a journal that was fenced. Others may lead at any time: its owner
        waits until the lane has left, and lets it step down then. Raises JournalFailed, or
        NotLeaderOrFollower if that is so already.
        """
        assert self._shared is not None
        lane = self._lane(number, journal, self._shared.volumes(number, journal), followed)
        starting = lane.start(partial(self._on_lane_failure, lane), self.warn, leader)
        try:
            await lane.while_leading(starting)
            if number != CONTROLLER:
                await lane.while_leading(self.lanes.until_topics_known())
            lane.check_leads()
            self._take(lane)
        except BaseException:
            await lane.step_down()
            raise
        self.journals_on_store[number] = journal
        self.metrics.takeovers[journal.may_miss_acknowledged] += 1
        return lane

    def _on_lane_failure(self, lane: Lane, error: BaseException) -> None:
        """Whoever loses a lane to another loses no more than that."""
        if isinstance(error, JournalAbandoned):
            log.warning("stepped down", lane=lane.number, reason=str(error))
            self.metrics.step_downs += 1
            self._leave(lane)
        else:
            self._on_failure(error)

    def _take(self, lane: Lane) -> None:
        self.topics.align(lane)
        self.lanes.add(lane)
        if self._server is not None:
            self.across.lead(lane)
        if lane.number == CONTROLLER:
            self.elsewhere.came_here(lane.view)
            self._recall()
            if self.is_shared:
                self.spread_over(lane.view.lanes.count)
        if self.is_shared and self._server is not None:
            self.late_requests.took_over(self._server.last_connection_number)

    def follow(self, followed: FollowedLane, *, is_led: bool) -> None:
        """Answer from what is followed of lane 0; `is_led` if whom it names leads it for all that
        is known."""
        is_new = self.elsewhere.follow(followed, is_led=is_led)
        self.spread_over(followed.lanes.count)
        changed = followed.take_changed_topics()
        self._recall_followed(followed)
        try:
            if is_new or not self.lanes.knows_topics:
                self.topics.align_all(followed.catalogue)
            else:
                self.topics.hear_of_changes(followed.catalogue, changed)
        except JournalFull as error:
            # A lane without room must not serve what is gone.
            self.lanes.tell_of(AbsentCatalogue(), followed.access)
            log.warning("what is new of topics waits for room", reason=str(error))
        else:
            self.lanes.tell_of(followed.catalogue, followed.access)
        self.look_at_quotas()
        self.nodes.look()
        self.access.look()

    def _recall_followed(self, followed: FollowedLane) -> None:
        names = (ALL_BROKERS, str(self._static_config.node_id))
        configs = [dict(followed.broker_config(name)) for name in names]
        if configs != self._recalled:
            self._recalled = configs
            self.recall_config(followed.broker_config)

    @property
    def is_in_line(self) -> bool:
        """The lanes that are led here host what the catalogue says, as far as it was heard."""
        return self.lanes.knows_topics

    def spread_over(self, lane_count: int) -> None:
        """So many lanes there are, as lane 0 says."""
        if lane_count == self.lanes.count:
            return
        self.lanes.count = lane_count
        for lane in self.lanes.led:
            lane.spread_over(lane_count)

    def heard_all(self, since_s: float) -> None:
        """What is known of lane 0 was all there was then."""
        self._heard_all_s = max(self._heard_all_s, since_s)
        self.access.look()

    def _silent_s(self) -> float:
        """So long ago what is known of lane 0 was all there was."""
        if self.lanes.leads_catalogue and not self.is_shared:
            return 0.0
        heard_s = self._heard_all_s
        caught_up_s = self.elsewhere.caught_up_s
        if caught_up_s is not None and not self.lanes.leads_catalogue:
            heard_s = max(heard_s, caught_up_s)
        return self.loop_time_s - heard_s

    def reach_others(self, key: KnownKey, connect: Connect) -> None:
        """For lanes that have something to say to each other."""
        assert self._shared is not None
        assert self._server is not None
        self.peers.lines = Lines(
            key, self._randomness, connect, self._server.start_task, self._shared.stop_s
        )

    def tell_by(self, hearing: Hearing) -> None:
        """While lane 0 is led here and other nodes lead others."""
        self.topics.telling = hearing

    def make_internal_topics(self) -> None:
        """Others cannot make them when the first group or transaction comes. Raises JournalFull."""
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            self.coordinators.internal_topic(name)

    async def answer_lane(self, asked: LaneCall) -> AnyAnswer:
        """What a lane elsewhere asks one that is led here."""
        return await self.peers.answer(asked)

    async def answer_forwarded(self, asked: Forwarded) -> AnyAnswer:
        """What another node asks on behalf of a client."""
        return await answer_forwarded(self, asked)

    def hear_of_cluster(self, cluster_id: bytes) -> None:
        """From whoever leads lane 0 of the same folder."""
        self._cluster_id = cluster_id

    def node_of_lane(self, number: int) -> LedBy | None:
        """Who leads a lane, this node or another; None if that is not known. Where other nodes find
        it is said of others alone."""
        lane = self.lanes.by_number.get(number)
        if lane is None:
            return self.elsewhere.leader_of(number)
        return LedBy(lane.view.epoch, self._static_config.node_id, "", 0)

    def hear_of_leader(self, leader: LedBy, lane: int = CONTROLLER) -> None:
        """Another says that it leads, sooner than lane 0 does here."""
        if lane == CONTROLLER:
            self.elsewhere.hear_of(leader)
        else:
            self.elsewhere.hear_of_lane(lane, leader)

    def hear_while_blind(self, leader: LedBy | None) -> None:
        """The store cannot be read from here: others say who leads, or nobody does."""
        self.elsewhere.hear_while_blind(leader)

    # Settings

    def reconfigure(self, name: str, config: dict[str, str], only_check: bool) -> None:
        """Give this broker, or all of them, other settings while it runs.

        Raises JournalFull, and refusals.
        """
        layers = self.layers.with_layer(name, config)
        self._check_sizes(layers.effective)
        self.lanes.controller.submit(ConfigureBroker(name, config, only_check))
        if only_check:
            return
        if name in (ALL_BROKERS, str(self._static_config.node_id)):
            self._adopt(layers)
        if self.topics.telling is not None:
            self.topics.telling.broker(name)

    def tell_change(self, caller: Caller, what: str, **details: object) -> None:
        """Of topics and settings, where it is known who changes them."""
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
        self.look_at_quotas()
        if self.topics.telling is not None:
            self.topics.telling.quotas(entity)

    def look_at_quotas(self) -> None:
        """They may be others than before."""
        if self.metering.follow(self.lanes.quotas) and self._server is not None:
            self._server.count_requests(is_needed=self.metering.limits_clients)

    def _recall(self) -> None:
        """What was set while an earlier process ran. It may not go with what this one was started
        with, which then counts alone: a broker that does not start can be told nothing."""
        self.look_at_quotas()
        view = self.lanes.controller.view
        self.recall_config(view.broker_config)

    def recall_config(self, config_of: Callable[[str], Mapping[str, str]]) -> None:
        """Take over what was set for this broker, and for all."""
        names = (ALL_BROKERS, str(self._static_config.node_id))
        for_all, for_this = (_known(config_of(name)) for name in names)
        try:
            self._adopt(LayeredConfig(self._static_config, for_all, for_this))
        except ConfigError as error:
            log.warning("what was set while the broker ran is left out", reason=str(error))
            self._adopt(LayeredConfig(self._static_config))

    def _adopt(self, layers: LayeredConfig) -> None:
        self.layers = layers
        self.config = layers.effective
        self._lane_settings = self._settings_of_lanes(self.config)
        for lane in self.lanes.led:
            lane.configure(self._lane_settings)

    # What handlers ask

    def random_bytes(self, size: int) -> bytes:
        return self._randomness.token_bytes(size)

    @property
    def connection_count(self) -> int:
        return self._server.connection_count if self._server else 0

    @property
    def store(self) -> Counted | None:
        return None if self._shared is None else self._shared.store

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    @property
    def loop_time_s(self) -> float:
        return self._server.loop.time() if self._server else 0.0

    @property
    def reply_room_bytes(self) -> int:
        """How much a reply may hold until its client has read it; more if it cannot be less."""
        unsent_bytes = self._server.unsent_bytes if self._server else 0
        return max(0, self.config.queued_max_response_bytes - unsent_bytes)

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

    def _on_failure(self, error: BaseException) -> None:
        assert self._failed is not None
        self.close()
        if not self._failed.done():
            self._failed.set_exception(error)

    async def _fail(self) -> None:
        """A failed write or sync ends the broker: what the disk holds is no longer known."""
        assert self._failed is not None
        await self._failed


def _lane_numbers(
    device_count: int, shared: Shared | None, workers: Workers | None
) -> tuple[Sequence[int], int]:
    """Of those that are led from the start on, and how many there are anywhere."""
    if workers is not None:
        return workers.numbers, workers.lane_count
    return range(device_count), device_count if shared is None else shared.lane_count


def _windows(config: BrokerConfig) -> Windows:
    return Windows(config.quota_window_num, config.quota_window_size_seconds * 1_000)


def volumes_on(device: Device) -> Volumes:
    """Beside the journal, made by a process that can reach the same folder, if one can."""
    maker: VolumeMaker = MakesHere(device)
    if isinstance(device, FileDevice):
        maker = MakesApart(str(device.folder))
    return Volumes(DeviceVolumes(device), maker)


def _known(config: Mapping[str, str]) -> dict[str, str]:
    """Without what this version has no such setting for."""
    about = about_settings()
    return {
        name: value for name, value in config.items() if name in about and not about[name].is_fixed
    }
