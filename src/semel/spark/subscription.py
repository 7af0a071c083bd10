"""Which partitions a query reads: topics by name, by pattern, or partitions one by one."""

import base64
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import ClusterMetadata, TopicMetadata
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.spark.options import Options, check_topic
from semel.types import TopicPartition

_ASSIGNED_EXAMPLE = '{"topic": [0, 1]}'
_WAYS = ("subscribe", "subscribePattern", "assign")


_NO_ID = bytes(16)


class FoundPartitions(NamedTuple):
    partitions: list[TopicPartition]
    topic_ids: dict[str, str]
    """As Kafka's tools show them; nothing where the cluster has none."""


class QuerySubscription(NamedTuple):
    """One of the three is set."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] | None = None

    def includes(self, partition: TopicPartition) -> bool:
        """Whether it is read, if it exists."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, partition.topic) is not None
        return partition.topic in (self.topics or ()) or partition in (self.partitions or ())

    async def find(self, cluster: Cluster) -> FoundPartitions:
        """The partitions that exist now; of those that are named, all have to."""
        described = await cluster.describe(self._names())
        for partition in self.partitions or ():
            described.leader_of(partition)
        return self._found_in(described, may_miss=False)

    async def find_remaining(self, cluster: Cluster) -> FoundPartitions:
        """As `find`, without what was deleted since the query began.

        The cluster has been there, so that it is waited for: an address at which nobody answers
        from the beginning is told at once.
        """

        async def attempt() -> FoundPartitions:
            return self._found_in(await cluster.describe(self._names()), may_miss=True)

        return await cluster.retry(attempt)

    def _found_in(self, described: ClusterMetadata, *, may_miss: bool) -> FoundPartitions:
        names = self._names()
        if names is None:
            return _found(
                topic
                for topic in described.topics.values()
                if not topic.is_internal and re.fullmatch(self.pattern or "", topic.name)
            )
        topics = []
        for name in names:
            try:
                topics.append(described.topic(name))
            except UnknownTopicOrPartition:
                if not may_miss:
                    raise UnknownTopicOrPartition(
                        f"topic {name} does not exist: create it, as by `semel topic create`, or "
                        f"see with `semel topic list` how it is spelled"
                    ) from None
        found = _found(topics)
        if self.partitions is None:
            return found
        existing = set(found.partitions)
        return found._replace(partitions=[each for each in self.partitions if each in existing])

    def _names(self) -> Collection[str] | None:
        """Of the topics to ask for; None is all of them."""
        if self.pattern is not None:
            return None
        return self.topics or {partition.topic for partition in self.partitions or ()}


def subscription(options: Options) -> QuerySubscription:
    given = [name for name in _WAYS if name in options]
    if len(given) != 1:
        raise ConfigError(
            f"one of the options {', '.join(_WAYS)} is needed"
            + (f", not {' and '.join(given)}" if given else " to say what is read")
        )
    text = options.text(given[0]) or ""
    if given == ["subscribe"]:
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise ConfigError("option subscribe names no topic")
        for topic in topics:
            check_topic(topic, "option subscribe")
        return QuerySubscription(topics=topics)
    if given == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"option subscribePattern is {text!r}: {error}") from None
        return QuerySubscription(pattern=text)
    return QuerySubscription(partitions=_assigned(options))


def _assigned(options: Options) -> tuple[TopicPartition, ...]:
    topics = options.json("assign", _ASSIGNED_EXAMPLE)
    try:
        partitions = tuple(
            TopicPartition(topic, int(number))
            for topic, numbers in topics.items()
            for number in numbers
        )
    except (AttributeError, TypeError, ValueError):
        partitions = ()
    if not partitions:
        raise ConfigError(
            f"option assign is {options.text('assign')!r}: it is JSON such as {_ASSIGNED_EXAMPLE}"
        )
    for partition in partitions:
        check_topic(partition.topic, "option assign")
    return partitions


def _found(topics: Iterable[TopicMetadata]) -> FoundPartitions:
    known = list(topics)
    ids = {topic.name: _text(topic.topic_id) for topic in known if topic.topic_id != _NO_ID}
    return FoundPartitions(
        [partition for topic in known for partition in topic.topic_partitions], ids
    )


def _text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
