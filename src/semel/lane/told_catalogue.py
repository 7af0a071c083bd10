"""The catalogue in a process that neither leads lane 0 nor reads its journal: it is told of it."""

from collections.abc import Iterator

from semel.lane.catalogue import Catalogue, Topic
from semel.lane.view import TopicView


class ToldCatalogue:
    """Everything in it is durable where it was decided, and may be old."""

    def __init__(self) -> None:
        self._topics = Catalogue()

    def tell(
        self,
        name: str,
        topic_id: bytes,
        config: dict[str, str],
        partition_count: int,
        first_lane: int,
        lane_count: int,
    ) -> TopicView:
        """Put the topic in, in place of the one of this name; gives it."""
        topic = Topic(name, topic_id, config, partition_count, first_lane, lane_count)
        self._topics.remove(name)
        self._topics.add(topic)
        return topic

    def forget(self, name: str) -> None:
        self._topics.remove(name)

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[TopicView]:
        return iter(self._topics)

    def walk(self, first: str = "") -> Iterator[TopicView]:
        return self._topics.walk(first)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def get(self, name: str) -> TopicView | None:
        return self._topics.get(name)

    def with_id(self, topic_id: bytes) -> TopicView | None:
        return self._topics.with_id(topic_id)

    def named(self, name: str) -> TopicView:
        return self._topics.named(name)

    def has_partition(self, name: str, index: int) -> bool:
        return self._topics.has_partition(name, index)
