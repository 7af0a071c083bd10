"""Which lane coordinates a group or a transactional id: the one that its partition lies in."""

from semel.broker.led_lanes import CONTROLLER, LedLanes
from semel.broker.topics_over_lanes import TopicsOverLanes
from semel.errors import CoordinatorNotAvailable, NotCoordinator
from semel.lane.commands import LaneSettings, placed_internal_topic
from semel.lane.lane import Lane
from semel.lane.view import TopicView
from semel.records.partitioning import partition_for
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC


class Coordinators:
    def __init__(self, lanes: LedLanes, topics: TopicsOverLanes, settings: LaneSettings) -> None:
        self._lanes = lanes
        self._topics = topics
        self._partition_counts = {
            OFFSETS_TOPIC: settings.offsets_partition_count,
            TRANSACTIONS_TOPIC: settings.transactions_partition_count,
        }

    def of_group(self, group_id: str) -> Lane:
        """Raises NotCoordinator if it is led elsewhere."""
        return self.of(OFFSETS_TOPIC, group_id)

    def of_transactional_id(self, transactional_id: str) -> Lane:
        """Raises NotCoordinator if it is led elsewhere."""
        return self.of(TRANSACTIONS_TOPIC, transactional_id)

    def lane_of_group(self, group_id: str) -> int:
        """Whoever leads it."""
        return self.lane_of(OFFSETS_TOPIC, group_id)

    def lane_of_transactional_id(self, transactional_id: str) -> int:
        """Whoever leads it."""
        return self.lane_of(TRANSACTIONS_TOPIC, transactional_id)

    def lane_of(self, topic_name: str, key: str) -> int:
        """The number of the lane in which the partition of this internal topic lies that holds
        the key: a group, or a transactional id."""
        if self._lanes.count == 1:
            return CONTROLLER
        topic = self._placed(topic_name)
        return topic.lane_of(partition_for(key, topic.partition_count))

    def partition_of_group(self, group_id: str) -> int:
        """Of `__consumer_offsets`, which is made if it is not there. Raises as `internal_topic`."""
        topic = self._placed(OFFSETS_TOPIC)
        if self._lanes.leads_catalogue:
            topic = self.internal_topic(OFFSETS_TOPIC)
        return partition_for(group_id, topic.partition_count)

    def internal_topic(self, name: str) -> TopicView:
        """The topic of a coordinator, made when the first needs it.

        Raises JournalFull, or CoordinatorNotAvailable where topics cannot be made.
        """
        catalogue = self._lanes.catalogue_for_coordinators
        topic = catalogue.get(name)
        if topic is None and not self._lanes.leads_catalogue:
            raise CoordinatorNotAvailable(f"{name} is made elsewhere")
        if topic is None:
            topic = self._topics.create_internal(name)
        return topic

    def of(self, topic_name: str, key: str) -> Lane:
        """The lane that coordinates this key of an internal topic. Raises NotCoordinator if it is
        led elsewhere, and CoordinatorNotAvailable if it is not ready."""
        lanes = self._lanes
        if lanes.count == 1 and lanes.led:
            return lanes.led[0]
        topic = self._placed(topic_name)
        index = partition_for(key, topic.partition_count)
        lane = lanes.by_number.get(topic.lane_of(index))
        if lane is None:
            raise NotCoordinator(f"the coordinator of {key!r} is elsewhere")
        if lane.number != CONTROLLER and not lane.view.hosts_partition(topic_name, index):
            # Lane 0 may have made the topic for itself, or this lane had no room for its part.
            if lanes.knows_topics and topic_name in lanes.catalogue:
                self._topics.host(topic)
            if not lane.view.hosts_partition(topic_name, index):
                raise CoordinatorNotAvailable(f"the coordinator of {key!r} is not ready")
        return lane

    def _placed(self, name: str) -> TopicView:
        """The topic of a coordinator as it is, or will be; nothing is made."""
        lanes = self._lanes
        if lanes.knows_topics:
            topic = lanes.catalogue.get(name)
            if topic is not None:
                return topic
        count = self._partition_counts[name]
        for lane in lanes.led:
            # Without the catalogue: the setting may have been another one when it was made.
            count = lane.view.known_partition_count(name) or count
        return placed_internal_topic(name, count, lanes.count)
