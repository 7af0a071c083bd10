"""Topics whose partitions lie in several lanes: made, deleted, and kept in line with the catalogue.

The catalogue comes first, as it is what names lead to. A lane that has no room, or is not led here
by then, is told later; what it hosts of no topic of the catalogue is dropped before it serves.
"""

from collections.abc import Iterable
from functools import partial

from semel.broker.answer import Answer, Handled
from semel.broker.led_lanes import CONTROLLER, LedLanes
from semel.broker.telling import Tells
from semel.errors import JournalFull, RequestTimedOut, TopicAlreadyExists
from semel.groups.commands import OffsetToCommit
from semel.lane.lane import Lane
from semel.lane.topics import (
    ConfigureTopic,
    CreateInternalTopic,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    HostPartitions,
)
from semel.lane.view import CatalogueView, TopicView


class TopicsOverLanes:
    def __init__(self, lanes: LedLanes) -> None:
        self._lanes = lanes
        self._deleting: set[str] = set()
        """Topics that the catalogue has forgotten and other lanes may still have parts of. Law:
        none is made anew before all have dropped them."""
        self._behind: set[str] = set()
        """Topics that a lane could not be told of, as it had no room. Law: of those being deleted
        it holds none before the catalogue has durably forgotten them."""
        self.telling: Tells | None = None
        """To the lanes of other workers, where the catalogue is led."""
        self._gone: dict[str, int] = {}
        """Topics that were deleted, and by which change, as long as another worker may not have
        heard of it."""

    # What is asked for

    def create(self, command: CreateTopic) -> bytes:
        """Gives its id. Raises JournalFull, and refusals."""
        controller = self._lanes.controller
        self._check_free(command.name)
        topic_id = controller.submit(command)
        if not command.only_check:
            self._place(command.name)
        return topic_id

    def _check_free(self, name: str) -> None:
        """Raises TopicAlreadyExists while a lane may still have what a deleted topic of this name
        has left, which would pass for the new one's; RequestTimedOut if that is not known yet."""
        telling = self.telling
        if telling is not None:
            if not telling.have_all_begun:
                raise RequestTimedOut("not all who lead lanes have heard of all topics yet")
            change = self._gone.get(name)
            if change is not None and telling.have_all_heard(change):
                del self._gone[name]
        if name in self._deleting or name in self._gone:
            raise TopicAlreadyExists(f"topic {name!r} is being deleted")

    def create_internal(self, name: str) -> TopicView:
        """The topic of a coordinator. Raises JournalFull."""
        self._lanes.controller.submit(CreateInternalTopic(name))
        return self._place(name)

    def grow(self, name: str, partition_count: int) -> None:
        """Raises JournalFull, and refusals."""
        self._lanes.controller.submit(GrowTopic(name, partition_count))
        self._place(name)

    def configure(self, name: str, config: dict[str, str], *, only_check: bool) -> None:
        """Raises JournalFull, and refusals."""
        self._lanes.controller.submit(ConfigureTopic(name, config, only_check))
        if self.telling is not None and not only_check:
            self.telling.topic(name)

    def _place(self, name: str) -> TopicView:
        topic = self._lanes.catalogue.named(name)
        self.host(topic)
        if self.telling is not None:
            self.telling.topic(name)
        return topic

    def once_heard(self, answer: Answer) -> Handled:
        """What was changed counts everywhere when its client hears so."""
        if self.telling is None:
            return answer
        return self._once_heard(self.telling, answer)

    @staticmethod
    async def _once_heard(telling: Tells, answer: Answer) -> Answer:
        await telling.until_heard()
        return answer

    def host(self, topic: TopicView) -> None:
        """Let the other lanes that are led here know which partitions of a topic lie in them.

        The topic is there whatever becomes of that: a lane without room is told again later.
        """
        for lane in self._lanes.led:
            try:
                _host_in(lane, topic)
            except JournalFull:
                self._behind.add(topic.name)

    def acquaint(self, lane: Lane, offsets: Iterable[OffsetToCommit]) -> None:
        """Let a lane know by their ids the topics whose offsets it is to keep.

        It may have none of their partitions. A crash may take what it heard of a deletion, and a
        name alone does not tell that the topic is another one by then. Raises JournalFull.
        """
        if lane.number == CONTROLLER:
            return
        for name in dict.fromkeys(each.topic for each in offsets):
            topic = self._lanes.catalogue.named(name)
            if lane.view.topic_id(name) != topic.topic_id:
                indexes = topic.indexes_in(lane.number)
                lane.submit(HostPartitions(name, topic.topic_id, indexes, topic.partition_count))

    def delete(self, topic: TopicView) -> None:
        """The catalogue forgets it first. Law: other lanes drop what they have of it only when that
        is durable: a crash before would leave a topic that has lost its records."""
        controller = self._lanes.controller
        name = topic.name
        controller.submit(DeleteTopic(name))
        controller.settling.deleted_by_hand()
        # What a lane had no room for it need not hear of any more.
        self._behind.discard(name)
        if self._lanes.count > 1:
            self._deleting.add(name)
            controller.when_all_durable(partial(self._drop, controller, name))
        if self.telling is not None:
            self._gone[name] = self.telling.topic(name)

    def _drop(self, controller: Lane, name: str) -> None:
        if not controller.is_leading or name not in self._deleting:
            return
        try:
            self.drop(name)
        except JournalFull:
            self._behind.add(name)
        else:
            self._deleting.remove(name)

    def drop(self, name: str) -> None:
        """The catalogue has forgotten it, durably. Raises JournalFull."""
        for lane in self._lanes.led:
            if lane.number != CONTROLLER:
                lane.submit(DeleteTopic(name))
                lane.settling.deleted_by_hand()

    # What lanes are told later

    def catch_up(self) -> None:
        """Tell the other lanes again what they had no room for."""
        if not self._lanes.knows_topics:
            return
        if self.telling is not None:
            heard = self.telling.have_all_heard
            self._gone = {name: change for name, change in self._gone.items() if not heard(change)}
        behind, self._behind = self._behind, set()
        for name in behind:
            if name in self._deleting:
                self._drop(self._lanes.controller, name)
            elif (topic := self._lanes.catalogue.get(name)) is not None:
                self.host(topic)

    def align(self, lane: Lane) -> None:
        """Before this lane serves anybody here: have it agree with the catalogue, or all others
        with it if it holds that. Raises JournalFull if a lane has no room to drop what must not be
        served."""
        if lane.number == CONTROLLER:
            self.align_all(lane.view.catalogue)
        elif self._lanes.knows_topics:
            self._align_with(self._lanes.catalogue, lane)

    def align_all(self, catalogue: CatalogueView) -> None:
        """As `align`, with what is told of lane 0."""
        for lane in self._lanes.led:
            self._align_with(catalogue, lane)

    def left_catalogue(self) -> None:
        self._deleting.clear()
        self._behind.clear()
        self._gone.clear()
        self.telling = None

    def _align_with(self, catalogue: CatalogueView, lane: Lane) -> None:
        """Drop what the catalogue does not know, host what it has placed here."""
        if lane.number == CONTROLLER:
            return
        for hosted in lane.view.hosted_topics():
            # What is being deleted is dropped when that is durable.
            if hosted.name not in self._deleting and catalogue.get(hosted.name) is None:
                lane.submit(DeleteTopic(hosted.name))
        for topic in catalogue:
            self._host_or_later(lane, topic)

    def hear_of(self, topic: TopicView) -> None:
        """So it is now in the catalogue that another worker leads. Raises JournalFull if a lane has
        no room to drop an older one of this name."""
        for lane in self._lanes.led:
            self._host_or_later(lane, topic)

    def hear_of_changes(self, catalogue: CatalogueView, names: Iterable[str]) -> None:
        """As `hear_of`, of topics that are other than before in what is followed, or gone."""
        for name in names:
            topic = catalogue.get(name)
            if topic is None:
                self.drop(name)
            else:
                self.hear_of(topic)

    def _host_or_later(self, lane: Lane, topic: TopicView) -> None:
        try:
            _host_in(lane, topic)
        except JournalFull:
            if lane.view.topic_id(topic.name) not in (None, topic.topic_id):
                raise
            self._behind.add(topic.name)


def _host_in(lane: Lane, topic: TopicView) -> None:
    if lane.number == CONTROLLER:
        return
    indexes = topic.indexes_in(lane.number)
    if indexes or lane.view.hosts(topic.name):
        lane.submit(HostPartitions(topic.name, topic.topic_id, indexes, topic.partition_count))
