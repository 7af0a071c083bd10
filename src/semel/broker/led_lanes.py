"""The lanes that a broker leads, what it can tell of topics, and where a partition lies."""

import asyncio
from typing import Final

from semel.access.access_view import AccessView
from semel.access.quotas import QuotasView
from semel.access.users import UsersView
from semel.broker.absent_catalogue import AbsentCatalogue
from semel.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotController,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from semel.lane.lane import Lane, Mark
from semel.lane.view import CatalogueView, PartitionView, TopicView
from semel.types import TopicPartition

CONTROLLER: Final = 0
"""The lane that holds the catalogue of topics."""


class LedLanes:
    def __init__(self, count: int) -> None:
        self.count = count
        """Of all over which topics are spread, wherever they are led."""
        self.by_number: dict[int, Lane] = {}
        """Those that this broker leads."""
        self.led: tuple[Lane, ...] = ()
        """The same, in the order of their numbers."""
        self.catalogue: CatalogueView = AbsentCatalogue()
        """Of lane 0 if it is led here, or as much as is told of it."""
        self.access: AccessView | None = None
        """As lane 0 says, or as much as is told of it; None if nobody has told."""
        self._are_topics_known = asyncio.Event()

    # Which are led

    def add(self, lane: Lane) -> None:
        self.by_number[lane.number] = lane
        self.led = tuple(self.by_number[number] for number in sorted(self.by_number))
        if lane.number == CONTROLLER:
            self._know(lane.view.catalogue)
            self.access = lane.view.access

    def remove(self, lane: Lane) -> bool:
        """False if it was not led any more."""
        if self.by_number.get(lane.number) is not lane:
            return False
        del self.by_number[lane.number]
        self.led = tuple(each for each in self.led if each is not lane)
        if lane.number == CONTROLLER:
            self._know(AbsentCatalogue())
            self.access = None
        return True

    def tell_of(self, catalogue: CatalogueView, access: AccessView | None) -> None:
        """What is known of lane 0 while another leads it."""
        if not self.leads_catalogue:
            self._know(catalogue)
            self.access = access

    def _know(self, catalogue: CatalogueView) -> None:
        self.catalogue = catalogue
        if self.knows_topics:
            self._are_topics_known.set()
        else:
            self._are_topics_known.clear()

    async def until_topics_known(self) -> None:
        """Return when somebody who leads has told of them."""
        await self._are_topics_known.wait()

    @property
    def users(self) -> UsersView | None:
        """None if nobody has told of them."""
        return None if self.access is None else self.access.users

    @property
    def quotas(self) -> QuotasView | None:
        """None if nobody has told of them."""
        return None if self.access is None else self.access.quotas

    @property
    def leads_catalogue(self) -> bool:
        return CONTROLLER in self.by_number

    @property
    def knows_topics(self) -> bool:
        """False if nobody who leads has told of any yet, which is not that there are none."""
        return not isinstance(self.catalogue, AbsentCatalogue)

    @property
    def controller(self) -> Lane:
        """The lane that decides about topics."""
        lane = self.by_number.get(CONTROLLER)
        if lane is None:
            raise NotController("the topics are led elsewhere")
        return lane

    @property
    def any(self) -> Lane:
        """For what any lane can do."""
        if not self.led:
            raise CoordinatorLoadInProgress("this broker leads no lane")
        return self.led[0]

    def marks(self) -> list[Mark]:
        """The present end of every lane that is led here."""
        return [lane.mark() for lane in self.led]

    # Where things lie

    def of(self, partition: TopicPartition) -> tuple[Lane, PartitionView]:
        """As `hosted`, of a topic by its name."""
        return self.hosted(self.topic_named(partition.topic), partition.partition)

    def hosted(self, topic: TopicView, index: int) -> tuple[Lane, PartitionView]:
        """As `at`, with the partition. Raises NotLeaderOrFollower also if its lane has not heard of
        it yet: the catalogue may be ahead, and clients that heard of no topic would forget it."""
        lane = self.at(topic, index)
        try:
            return lane, lane.view.partition(topic.name, index)
        except UnknownTopicOrPartition:
            raise NotLeaderOrFollower(f"{topic.name}-{index} is not led here yet") from None

    def at(self, topic: TopicView, index: int) -> Lane:
        """Raises UnknownTopicOrPartition, or NotLeaderOrFollower if it is led elsewhere, or if the
        catalogue is."""
        if 0 <= index < topic.partition_count:
            lane = self.by_number.get(topic.lane_of(index))
            if lane is None:
                raise NotLeaderOrFollower(f"{topic.name}-{index} is led elsewhere")
            return lane
        if not self.leads_catalogue:
            raise NotLeaderOrFollower(f"the partitions of {topic.name!r} are told elsewhere")
        raise UnknownTopicOrPartition(f"topic {topic.name!r} has no partition {index}")

    def number_of(self, topic_name: str, index: int) -> int | None:
        """Of the lane that a partition lies in; None if nobody has told of it here."""
        if self.count == 1:
            return CONTROLLER
        topic = self.catalogue.get(topic_name) if self.knows_topics else None
        return None if topic is None else topic.lane_of(index)

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

    @property
    def catalogue_for_coordinators(self) -> CatalogueView:
        """Raises CoordinatorNotAvailable, upon which clients of coordinators ask again."""
        if not self.knows_topics:
            raise CoordinatorNotAvailable("the topics are led elsewhere")
        return self.catalogue
