"""The lanes that a broker leads: how they are opened, taken from others and given up."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from semel.broker import log
from semel.broker.config import BrokerConfig
from semel.broker.lane_settings import lane_settings
from semel.broker.led_lanes import CONTROLLER
from semel.journal.file.device import Device
from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.settings import JournalSettings
from semel.journal.seam import Journal, JournalAbandoned
from semel.lane.commands import LaneSettings
from semel.lane.contents import CONTENTS
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane
from semel.lane.leader import Leader
from semel.lane.settling import Volumes
from semel.lane.topics import EnforceRetention
from semel.volumes.making import MakesApart, MakesHere, VolumeMaker
from semel.volumes.store import DeviceVolumes
from semel.world import Clock, Randomness

if TYPE_CHECKING:
    from semel.broker.broker import Broker, Shared
    from semel.volumes.tiering import Tiering


class Leading:
    def __init__(
        self,
        broker: "Broker",
        clock: Clock,
        randomness: Randomness,
        shared: "Shared | None",
        tiering: "Tiering | None",
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._randomness = randomness
        self._shared = shared
        self._tiering = tiering
        config = broker.config
        self._journal_settings = JournalSettings(
            segment_bytes=config.journal_segment_bytes,
            flush_interval_ms=config.log_flush_interval_ms,
            group_commit=config.journal_group_commit,
            tail_bytes=config.journal_tail_bytes,
        )
        self.lane_settings = self._settings_of_lanes(config)
        self.journals: dict[int, FileJournal] = {}
        """Of the lanes that are led."""
        self.journals_on_store: dict[int, Journal] = {}
        """Of lanes that others can take."""

    @property
    def payload_bytes_max(self) -> int:
        """Of a frame of any of their journals."""
        limits = self._journal_settings if self._shared is None else self._shared.limits
        return limits.payload_bytes_max

    def configure(self, config: BrokerConfig) -> None:
        self.lane_settings = self._settings_of_lanes(config)
        for lane in self._broker.lanes.led:
            lane.configure(self.lane_settings)

    def _settings_of_lanes(self, config: BrokerConfig) -> LaneSettings:
        settings = lane_settings(config, on_store=self._shared is not None)
        if self._tiering is None:
            return settings
        # What will go by itself would fill the disk until it does.
        settling = settings.settling._replace(leaves_what_dies=False)
        return settings._replace(settling=settling)

    # Opening

    def open_all(self, devices: Iterable[tuple[int, Device]]) -> None:
        """Replays the lanes of these numbers. Raises NewerFormat, CorruptJournal or FolderInUse."""
        for number, device in devices:
            self._broker.lanes.add(self._open(number, device))

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

    def _lane(
        self,
        number: int,
        journal: Journal,
        volumes: Volumes,
        followed: FollowedLane | None = None,
    ) -> Lane:
        broker = self._broker
        return Lane(
            journal,
            self.lane_settings,
            self._clock,
            self._randomness,
            number,
            broker.lanes.count,
            broker.deadlines_changed,
            volumes,
            followed,
        )

    async def start(self) -> None:
        """Those that were opened."""
        broker = self._broker
        for lane in broker.lanes.led:
            await lane.start(broker.fail, broker.warn)
        if broker.lanes.leads_catalogue:
            broker.access.check(len(broker.lanes.controller.view.access.access_list))
            # A crash may have come between the lanes.
            broker.topics.align(broker.lanes.controller)
        if broker.config.retention_enforce:
            for lane in broker.lanes.led:
                lane.submit(EnforceRetention())

    async def stop(self) -> None:
        """Write down what is there, and give the journals free."""
        stop_s = None if self._shared is None else self._shared.stop_s
        for lane in self._broker.lanes.led:
            try:
                async with asyncio.timeout(stop_s):
                    await lane.close()
            except TimeoutError:
                log.warning("the store does not answer: another has to find out that this one left")

    # Taking

    async def take_lane(self, number: int, device: Device) -> None:
        """Lead this lane, with the state that its journal says.

        Law: it serves nobody before it is in line with the catalogue, nor does the catalogue before
        the other lanes are: a name must not lead to what a deleted topic has left.
        """
        lane = self._open(number, device)
        try:
            await lane.start(self._broker.fail, self._broker.warn)
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
        broker = self._broker
        lane = self._lane(number, journal, self._shared.volumes(number, journal), followed)
        starting = lane.start(partial(self._on_lane_failure, lane), broker.warn, leader)
        try:
            await lane.while_leading(starting)
            if number != CONTROLLER:
                await lane.while_leading(broker.lanes.until_topics_known())
            lane.check_leads()
            if number == CONTROLLER:
                # Nobody was served by it yet.
                broker.access.check(len(lane.view.access.access_list))
            self._take(lane)
        except BaseException:
            await lane.step_down()
            raise
        self.journals_on_store[number] = journal
        broker.metrics.takeovers[journal.may_miss_acknowledged] += 1
        return lane

    def _on_lane_failure(self, lane: Lane, error: BaseException) -> None:
        """Whoever loses a lane to another loses no more than that."""
        if isinstance(error, JournalAbandoned):
            log.warning("stepped down", lane=lane.number, reason=str(error))
            self._broker.metrics.step_downs += 1
            self._leave(lane)
        else:
            self._broker.fail(error)

    def _take(self, lane: Lane) -> None:
        broker = self._broker
        broker.topics.align(lane)
        broker.lanes.add(lane)
        if broker.server is not None:
            broker.across.lead(lane)
        if lane.number == CONTROLLER:
            broker.elsewhere.came_here(lane.view)
            broker.settings.recall_led()
            if self._shared is not None:
                self.spread_over(lane.view.lanes.count)
        if self._shared is not None and broker.server is not None:
            broker.late_requests.took_over(broker.server.last_connection_number)

    def spread_over(self, lane_count: int) -> None:
        """So many lanes there are, as lane 0 says."""
        lanes = self._broker.lanes
        if lane_count == lanes.count:
            return
        lanes.count = lane_count
        for lane in lanes.led:
            lane.spread_over(lane_count)

    # Giving up

    async def step_down(self, number: int) -> None:
        """Let another lead this lane; the process lives on, and may take it again."""
        lane = self._broker.lanes.by_number[number]
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
                self._broker.lanes.tell_of(lane.view.catalogue, lane.view.access)
                self._broker.access.look()
        finally:
            self._leave(lane)

    def _retire(self, lane: Lane) -> None:
        """Decide nothing more there."""
        broker = self._broker
        if not broker.lanes.remove(lane):
            return
        self.journals.pop(lane.number, None)
        self.journals_on_store.pop(lane.number, None)
        if lane.number == CONTROLLER:
            broker.topics.left_catalogue()
            broker.elsewhere.left_here()

    def _leave(self, lane: Lane) -> None:
        self._retire(lane)
        if self._broker.server is not None:
            self._broker.server.lane_left(lane)
        lane.leave()
        self._broker.across.leave(lane)


def volumes_on(device: Device) -> Volumes:
    """Volumes in the folder of the journal. A process of its own makes them, if it can reach that
    folder."""
    maker: VolumeMaker = MakesHere(device)
    if isinstance(device, FileDevice):
        maker = MakesApart(str(device.folder))
    return Volumes(DeviceVolumes(device), maker)
