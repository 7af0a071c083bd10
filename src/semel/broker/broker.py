"""The broker: everything that is made once and the order in which it starts and stops."""

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from semel.broker import log
from semel.broker.absent_catalogue import AbsentCatalogue
from semel.broker.answer import Call
from semel.broker.config import BrokerConfig, about_settings
from semel.broker.connection import Connection
from semel.broker.connection_on_store import ConnectionOnStore
from semel.broker.elsewhere import Elsewhere
from semel.broker.housekeeping import Housekeeping
from semel.broker.known_nodes import KnownNodes
from semel.broker.layered_config import ALL_BROKERS, LayeredConfig
from semel.broker.metrics import Metrics
from semel.broker.peers import Peers
from semel.broker.server import Server
from semel.broker.transactional import LateRequests
from semel.errors import (
    ConfigError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    JournalFull,
    NotController,
    NotCoordinator,
    NotLeaderOrFollower,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from semel.groups.commands import OffsetToCommit
from semel.groups.settings import GroupSettings
from semel.journal.file.device import Device
from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.settings import JournalSettings
from semel.journal.seam import Journal, JournalAbandoned, Limits
from semel.lane.commands import (
    ExpirySettings,
    LaneSettings,
    SettlingSettings,
    placed_internal_topic,
)
from semel.lane.contents import CONTENTS
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane, Mark
from semel.lane.leader import Leader, LedBy, NodeAddress
from semel.lane.settling import NO_VOLUMES, Volumes
from semel.lane.topics import (
    ConfigureBroker,
    CreateInternalTopic,
    CreateTopic,
    DeleteTopic,
    EnforceRetention,
    HostPartitions,
)
from semel.lane.view import CatalogueView, TopicView
from semel.records.partitioning import partition_for
from semel.store.counting import Counted
from semel.transactions.commands import TransactionSettings
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from semel.volumes.making import MakesApart, MakesHere, VolumeMaker
from semel.volumes.store import DeviceVolumes
from semel.world import Clock, Randomness

if TYPE_CHECKING:
    from semel.cluster.desk import Desk
    from semel.volumes.tiering import Tiering

FRAME_SIZE_MAX = 2 * 2**20
"""Bytes. Batches of one request share a frame up to this size."""

STORE_SETTLE_BYTES = 64 * 2**20
"""What is settled at once on a store, unless the settings say otherwise."""

CONTROLLER = 0
"""The lane that holds the catalogue of topics."""

NO_CONTROLLER = -1
"""What clients are told while nobody is known to lead it; they ask again."""


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
    ) -> None:
        """Opens a lane on each device and replays it. Raises NewerFormat, CorruptJournal or
        FolderInUse, and ConfigError.

        Of lanes that are `shared` it leads none yet: it is told when to take them. With `tiering`
        the volumes of the others lie in a store, which has to be claimed before the start.
        """
        self._static_config = config
        self.layers = LayeredConfig(config)
        self.config = config
        """Its settings as they are now: what is set while it runs counts at once."""
        self.metrics = Metrics()
        self._advertised = config.advertised_address
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
        self._tiering = tiering
        self._lane_settings = self._settings_of_lanes(config)
        self._lane_count = len(devices) if shared is None else shared.lane_count
        self.elsewhere = Elsewhere(config.node_id)
        self._known_nodes = KnownNodes()
        self.node: Desk | None = None
        """Where other nodes are answered; None if there are none."""
        self.deadlines_changed = asyncio.Event()
        """Set when a step has brought a deadline before the next look at them."""
        self.journals: dict[int, FileJournal] = {}
        """Of these lanes."""
        self.journals_on_store: dict[int, Journal] = {}
        """Of lanes that others can take."""
        self.lanes: dict[int, Lane] = {}
        """Those that this broker leads, by their numbers."""
        self.led_lanes: tuple[Lane, ...] = ()
        """The same, in the order of their numbers."""
        for number, device in enumerate(devices):
            self._lead(self._open(number, device))
        self.catalogue: CatalogueView = AbsentCatalogue()
        if self.leads_catalogue:
            self.catalogue = self.controller.view.catalogue
            self._recall_config()
        limits = self._journal_settings if shared is None else shared.limits
        payload_bytes_max = limits.payload_bytes_max
        self.frame_size_max = min(FRAME_SIZE_MAX, payload_bytes_max // 2)
        self.batch_size_most = payload_bytes_max // 4
        self._deleting: set[str] = set()
        """Topics that the catalogue has forgotten and other lanes may still have parts of. Law:
        none is made anew before all have dropped them."""
        self._behind: set[str] = set()
        """Topics that a lane could not be told of, as it had no room."""
        self._cluster_id = b"" if shared is None else shared.cluster_id
        self.late_requests = LateRequests()
        self.peers = Peers(self)
        self._unreadable: set[TopicPartition] = set()
        self._failed: asyncio.Future[None] | None = None
        self._server: Server | None = None
        self._check_sizes(config)

    @property
    def is_shared(self) -> bool:
        """Others can lead its lanes at any time."""
        return self._shared is not None

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
            self._lane_count,
            self.deadlines_changed,
            volumes,
            followed,
        )

    def _lead(self, lane: Lane) -> None:
        self.lanes[lane.number] = lane
        self.led_lanes = tuple(self.lanes[number] for number in sorted(self.lanes))

    async def start(self, tasks: asyncio.TaskGroup) -> Server:
        """Ready to take connections: each needs a `Connection(server)` as its protocol."""
        self._failed = asyncio.get_running_loop().create_future()
        tasks.create_task(self._fail())
        for lane in self.led_lanes:
            await lane.start(self._on_failure, self.warn)
        for lane in self.led_lanes:
            # A crash may have come between the lanes.
            self._reconcile(lane, self.catalogue)
            if self.config.retention_enforce:
                lane.submit(EnforceRetention())
        self._server = Server(self, tasks)
        tasks.create_task(Housekeeping(self, self._server).run())
        return self._server

    def close(self) -> None:
        """Let nothing more in and end all connections, before the tasks of the broker end."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Close, write down what is there, and give the journals free."""
        self.close()
        stop_s = None if self._shared is None else self._shared.stop_s
        for lane in self.led_lanes:
            try:
                async with asyncio.timeout(stop_s):
                    await lane.close()
            except TimeoutError:
                log.warning("the store does not answer: another has to find out that this one left")

    def connection(self) -> Connection:
        assert self._server is not None, "start the broker first"
        return (ConnectionOnStore if self.is_shared else Connection)(self._server)

    # Lanes

    async def step_down(self, number: int) -> None:
        """Let another lead this lane; the process lives on, and may take it again."""
        lane = self.lanes[number]
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
                self.catalogue = lane.view.catalogue
        finally:
            self._leave(lane)

    def _retire(self, lane: Lane) -> None:
        """Decide nothing more there."""
        number = lane.number
        if self.lanes.get(number) is not lane:
            return
        del self.lanes[number]
        self.journals.pop(number, None)
        self.journals_on_store.pop(number, None)
        self.led_lanes = tuple(each for each in self.led_lanes if each is not lane)
        if number == CONTROLLER:
            self.catalogue = AbsentCatalogue()
            self._deleting.clear()
            self._behind.clear()
            self.elsewhere.left_here()

    def _leave(self, lane: Lane) -> None:
        self._retire(lane)
        if self._server is not None:
            self._server.lane_left(lane)
        lane.leave()

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
        if lane.number == CONTROLLER:
            for other in self.led_lanes:
                self._reconcile(other, lane.view.catalogue)
        elif self.leads_catalogue:
            self._reconcile(lane, self.catalogue)
        self._lead(lane)
        if lane.number == CONTROLLER:
            self.elsewhere.came_here()
            self.catalogue = lane.view.catalogue
            self._recall_config()
        if self.is_shared and self._server is not None:
            self.late_requests.took_over(self._server.last_connection_number)

    def follow(self, followed: FollowedLane, *, is_led: bool) -> None:
        """Answer from what is followed of lane 0; `is_led` if whom it names leads it for all that
        is known."""
        self.elsewhere.follow(followed, is_led=is_led)
        if not self.leads_catalogue:
            self.catalogue = followed.catalogue
        self._known_nodes.see(self._others(), self._clock.monotonic_ms())

    def hear_of_leader(self, leader: LedBy) -> None:
        """Another says that it leads, sooner than lane 0 does here."""
        self.elsewhere.hear_of(leader)

    @property
    def led_by(self) -> LedBy | None:
        """Another node, which leads all lanes; None if that is this one, or it is not known."""
        return self.elsewhere.led_by

    @property
    def caught_up_s(self) -> float | None:
        """When it was last known that nothing stands behind what is followed."""
        return self.elsewhere.caught_up_s

    @property
    def leads_catalogue(self) -> bool:
        return CONTROLLER in self.lanes

    @property
    def controller(self) -> Lane:
        """The lane that decides about topics."""
        lane = self.lanes.get(CONTROLLER)
        if lane is None:
            raise NotController("the topics are led elsewhere")
        return lane

    @property
    def controller_id(self) -> int:
        """The node to ask about topics, as far as this broker can tell."""
        if self.leads_catalogue:
            return self.config.node_id
        led_by = self.led_by
        return NO_CONTROLLER if led_by is None else led_by.node_id

    def live_nodes_for(self, call: Call) -> list[NodeAddress]:
        """As far as is known, by their ids."""
        nodes = {node.node_id: node for node in self._others()}
        own_id = self.config.node_id
        nodes[own_id] = NodeAddress(own_id, *self.address_for(call))
        return [nodes[node_id] for node_id in sorted(nodes)]

    def nodes_for(self, call: Call) -> list[NodeAddress]:
        """Those that live, and those that have gone a short while ago."""
        live = self.live_nodes_for(call)
        if not self.is_shared:
            return live
        now_ms = self._clock.monotonic_ms()
        self._known_nodes.see(live, now_ms)
        return self._known_nodes.named(now_ms)

    def _others(self) -> list[NodeAddress]:
        """Other nodes that live; perhaps this one, too."""
        if not self.is_shared:
            return []
        led_by = self.led_by
        return self._standing_by if led_by is None else [*self._standing_by, led_by.address]

    @property
    def _standing_by(self) -> list[NodeAddress]:
        if self.leads_catalogue:
            return self.controller.view.standing_by
        return self.elsewhere.standing_by

    def coordinator_for(self, call: Call) -> NodeAddress:
        """Of all groups and transactional ids: this node, unless another is known to lead."""
        led_by = self.led_by
        if led_by is None:
            return NodeAddress(self.config.node_id, *self.address_for(call))
        return led_by.address

    @property
    def any_lane(self) -> Lane:
        """For what any lane can do."""
        if not self.led_lanes:
            raise CoordinatorLoadInProgress("this broker leads no lane")
        return self.led_lanes[0]

    def lane_of(self, partition: TopicPartition) -> Lane:
        """Raises UnknownTopicOrPartition, or NotLeaderOrFollower if it is led elsewhere, or if the
        catalogue is."""
        return self.lane_in(self.topic_named(partition.topic), partition.partition)

    def topic_named(self, name: str) -> TopicView:
        """Raises UnknownTopicOrPartition; NotLeaderOrFollower if only others could tell that, as
        what is followed of the catalogue may be old."""
        try:
            return self.catalogue.named(name)
        except UnknownTopicOrPartition:
            if self.leads_catalogue:
                raise
            raise NotLeaderOrFollower("the topics are led elsewhere") from None

    def topic_with_id(self, topic_id: bytes) -> TopicView | None:
        """None if there is none. Raises NotLeaderOrFollower if only others could tell that."""
        topic = self.catalogue.with_id(topic_id)
        if topic is None and not self.leads_catalogue:
            raise NotLeaderOrFollower("the topics are led elsewhere")
        return topic

    def lane_in(self, topic: TopicView, index: int) -> Lane:
        if not 0 <= index < topic.partition_count:
            if not self.leads_catalogue:
                raise NotLeaderOrFollower(f"the partitions of {topic.name!r} are told elsewhere")
            raise UnknownTopicOrPartition(f"topic {topic.name!r} has no partition {index}")
        try:
            return self.lanes[topic.lane_of(index)]
        except KeyError:
            raise NotLeaderOrFollower(f"{topic.name}-{index} is led elsewhere") from None

    def lane_of_group(self, group_id: str) -> Lane:
        """Raises NotCoordinator if it is led elsewhere."""
        return self._coordinator(OFFSETS_TOPIC, group_id)

    def lane_of_transactional_id(self, transactional_id: str) -> Lane:
        """Raises NotCoordinator if it is led elsewhere."""
        return self._coordinator(TRANSACTIONS_TOPIC, transactional_id)

    def _coordinator(self, topic_name: str, key: str) -> Lane:
        if self._lane_count == 1 and self.led_lanes:
            return self.led_lanes[0]
        topic = self._placed(topic_name)
        index = partition_for(key, topic.partition_count)
        lane = self.lanes.get(topic.lane_of(index))
        if lane is None:
            raise NotCoordinator(f"the coordinator of {key!r} is elsewhere")
        if lane.number != CONTROLLER and not lane.view.hosts_partition(topic_name, index):
            # Lane 0 may have made the topic for itself, or this lane had no room for its part.
            if self.leads_catalogue and topic_name in self.catalogue:
                self.host(topic)
            if not lane.view.hosts_partition(topic_name, index):
                raise CoordinatorNotAvailable(f"the coordinator of {key!r} is not ready")
        return lane

    def _placed(self, name: str) -> TopicView:
        """The topic of a coordinator as it is, or will be; nothing is made."""
        if self.leads_catalogue:
            topic = self.catalogue.get(name)
            if topic is not None:
                return topic
        settings = self._lane_settings
        count = settings.transactions_partition_count
        if name == OFFSETS_TOPIC:
            count = settings.offsets_partition_count
        for lane in self.led_lanes:
            # Without the catalogue: the setting may have been another one when it was made.
            count = lane.view.known_partition_count(name) or count
        return placed_internal_topic(name, count, self._lane_count)

    def marks(self) -> list[Mark]:
        """The present end of every lane that is led here."""
        return [lane.mark() for lane in self.led_lanes]

    # Topics over lanes

    def internal_topic(self, name: str) -> TopicView:
        """The topic of a coordinator, made when the first needs it.

        Raises JournalFull, or CoordinatorNotAvailable where topics cannot be made.
        """
        if not self.leads_catalogue:
            raise CoordinatorNotAvailable("the topics are led elsewhere")
        topic = self.catalogue.get(name)
        if topic is None:
            self.controller.submit(CreateInternalTopic(name))
            topic = self.catalogue.named(name)
            self.host(topic)
        return topic

    def partition_of_group(self, group_id: str) -> int:
        """Of `__consumer_offsets`, which is made if it is not there. Raises as `internal_topic`."""
        topic = self._placed(OFFSETS_TOPIC)
        if self.leads_catalogue:
            topic = self.internal_topic(OFFSETS_TOPIC)
        return partition_for(group_id, topic.partition_count)

    @property
    def knows_topics(self) -> bool:
        """False if nobody who leads has told of any yet, which is not that there are none."""
        return not isinstance(self.catalogue, AbsentCatalogue)

    @property
    def is_leader_known(self) -> bool:
        """False if what is not here may be anywhere."""
        return bool(self.led_lanes) or self.led_by is not None

    @property
    def catalogue_for_coordinators(self) -> CatalogueView:
        """Raises CoordinatorNotAvailable, upon which clients of coordinators ask again."""
        if not self.leads_catalogue:
            raise CoordinatorNotAvailable("the topics are led elsewhere")
        return self.catalogue

    def create_topic(self, command: CreateTopic) -> bytes:
        """Gives its id. Raises JournalFull, and refusals."""
        controller = self.controller
        if command.name in self._deleting:
            # Other lanes still have what would be taken for the new topic's.
            raise TopicAlreadyExists(f"topic {command.name!r} is being deleted")
        topic_id = controller.submit(command)
        if not command.only_check:
            self.host(self.catalogue.named(command.name))
        return topic_id

    def host(self, topic: TopicView) -> None:
        """Let the other lanes know which partitions of a topic lie in them.

        The topic is there whatever becomes of that: a lane without room is told again later.
        """
        for lane in self.led_lanes:
            try:
                self._host_in(lane, topic)
            except JournalFull:
                self._behind.add(topic.name)

    def _host_in(self, lane: Lane, topic: TopicView) -> None:
        if lane.number == CONTROLLER:
            return
        indexes = topic.indexes_in(lane.number)
        if indexes or lane.view.hosts(topic.name):
            lane.submit(HostPartitions(topic.name, topic.topic_id, indexes, topic.partition_count))

    def acquaint(self, lane: Lane, offsets: Iterable[OffsetToCommit]) -> None:
        """Let a lane know by their ids the topics whose offsets it is to keep.

        It may have none of their partitions. A crash may take what it heard of a deletion, and a
        name alone does not tell that the topic is another one by then. Raises JournalFull.
        """
        if lane.number == CONTROLLER:
            return
        for name in dict.fromkeys(each.topic for each in offsets):
            topic = self.catalogue.named(name)
            if lane.view.topic_id(name) != topic.topic_id:
                indexes = topic.indexes_in(lane.number)
                lane.submit(HostPartitions(name, topic.topic_id, indexes, topic.partition_count))

    def delete_topic(self, topic: TopicView) -> None:
        """The catalogue forgets it first. Law: other lanes drop what they have of it only when that
        is durable: a crash before would leave a topic that has lost its records."""
        controller = self.controller
        name = topic.name
        controller.submit(DeleteTopic(name))
        controller.settling.deleted_by_hand()
        if self._lane_count > 1:
            self._deleting.add(name)
            controller.when_all_durable(partial(self._drop, controller, name))

    def _drop(self, controller: Lane, name: str) -> None:
        if not controller.is_leading or name not in self._deleting:
            return
        try:
            for lane in self.led_lanes:
                if lane.number != CONTROLLER:
                    lane.submit(DeleteTopic(name))
                    lane.settling.deleted_by_hand()
        except JournalFull:
            self._behind.add(name)
        else:
            self._deleting.remove(name)

    def catch_up(self) -> None:
        """Tell the other lanes again what they had no room for."""
        if not self.leads_catalogue:
            return
        behind, self._behind = self._behind, set()
        for name in behind:
            if name in self._deleting:
                self._drop(self.controller, name)
            elif (topic := self.catalogue.get(name)) is not None:
                self.host(topic)

    def _reconcile(self, lane: Lane, catalogue: CatalogueView) -> None:
        """Drop what the catalogue does not know, host what it has placed here.

        Raises JournalFull if the lane has no room to drop what must not be served.
        """
        if lane.number == CONTROLLER:
            return
        for hosted in lane.view.hosted_topics():
            # What is being deleted is dropped when that is durable.
            if hosted.name not in self._deleting and catalogue.get(hosted.name) is None:
                lane.submit(DeleteTopic(hosted.name))
        for topic in catalogue:
            try:
                self._host_in(lane, topic)
            except JournalFull:
                if lane.view.topic_id(topic.name) not in (None, topic.topic_id):
                    raise
                self._behind.add(topic.name)

    # Settings

    def reconfigure(self, name: str, config: dict[str, str], only_check: bool) -> None:
        """Give this broker, or all of them, other settings while it runs.

        Raises JournalFull, and refusals.
        """
        layers = self.layers.with_layer(name, config)
        self._check_sizes(layers.effective)
        self.controller.submit(ConfigureBroker(name, config, only_check))
        if not only_check:
            self._adopt(layers)

    def _recall_config(self) -> None:
        """What was set while an earlier process ran. It may not go with what this one was started
        with, which then counts alone: a broker that does not start can be told nothing."""
        view = self.controller.view
        names = (ALL_BROKERS, str(self._static_config.node_id))
        for_all, for_this = (_known(view.broker_config(name)) for name in names)
        try:
            self._adopt(LayeredConfig(self._static_config, for_all, for_this))
        except ConfigError as error:
            log.warning("what was set while the broker ran is left out", reason=str(error))
            self._adopt(LayeredConfig(self._static_config))

    def _adopt(self, layers: LayeredConfig) -> None:
        self.layers = layers
        self.config = layers.effective
        self._lane_settings = self._settings_of_lanes(self.config)
        for lane in self.led_lanes:
            lane.configure(self._lane_settings)

    # What handlers ask

    @property
    def connection_count(self) -> int:
        return self._server.connection_count if self._server else 0

    @property
    def store(self) -> Counted | None:
        return None if self._shared is None else self._shared.store

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
        if self.leads_catalogue:
            self._cluster_id = self.controller.view.cluster_id
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
        return any(lane.duties.is_short_of_room for lane in self.led_lanes)

    def address_for(self, call: Call) -> tuple[str, int]:
        """Where this client finds the broker: the address it came to, unless one is advertised."""
        return self._advertised or call.peer.listener

    # What goes wrong

    def found_unreadable(self, partition: TopicPartition, error: Exception) -> None:
        """Say it once: its readers will ask again and again."""
        if partition not in self._unreadable:
            self._unreadable.add(partition)
            log.warning("a partition cannot be read", partition=str(partition), reason=str(error))

    @property
    def unreadable_count(self) -> int:
        """Of partitions that were found so since the start."""
        return len(self._unreadable)

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


def settling_settings(config: BrokerConfig, *, on_store: bool) -> SettlingSettings:
    """Slots are dear to keep, as each is an object, and volumes are not: on a store old data is
    settled early, whatever will become of it, and volumes are joined later."""
    if not on_store:
        return SettlingSettings(config.journal_settle_bytes, config.journal_volume_bytes)
    settle_bytes = config.journal_settle_bytes
    if settle_bytes == BrokerConfig.journal_settle_bytes:
        settle_bytes = STORE_SETTLE_BYTES
    return SettlingSettings(
        settle_bytes,
        config.journal_volume_bytes,
        small_share=4,
        joined_share=2,
        leaves_what_dies=False,
    )


def lane_settings(config: BrokerConfig, *, on_store: bool = False) -> LaneSettings:
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
        settling=settling_settings(config, on_store=on_store),
        expiry=ExpirySettings(
            config.producer_id_expiration_ms,
            config.producer_id_expiration_check_interval_ms,
            config.transactional_id_expiration_ms,
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
        ),
    )
