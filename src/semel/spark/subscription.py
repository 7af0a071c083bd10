"""Which partitions a query reads: topics by name, by pattern, or partitions one by one."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple

from semel.client.cluster import Cluster
from semel.client.metadata import ClusterMetadata, Topic
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.spark.options import Options
from semel.types import TopicPartition

_WAYS = ("subscribe", "subscribePattern", "assign")


class Subscription(NamedTuple):
    """One of the three is set."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] | None = None

    async def find(self, cluster: Cluster) -> list[TopicPartition]:
        """The partitions that exist now; of those that are named, all have to."""
        return await self._find(cluster.describe)

    async def find_remaining(self, cluster: Cluster) -> list[TopicPartition]:
        """As `find`, without what was deleted since the query began.

        The cluster has been there, so that it is waited for: an address at which nobody answers
        from the beginning is told at once.
        """

        async def describe(names: Collection[str] | None) -> ClusterMetadata:
            return await cluster.retry(lambda: cluster.describe(names))

        try:
            return await self._find(describe)
        except UnknownTopicOrPartition:
            existing = set(_all_of((await describe(self._names())).topics.values()))
            if self.partitions is not None:
                existing &= set(self.partitions)
            return sorted(existing)

    async def _find(
        self, describe: Callable[[Collection[str] | None], Awaitable[ClusterMetadata]]
    ) -> list[TopicPartition]:
        if self.pattern is not None:
            described = await describe(None)
            named = re.compile(self.pattern)
            return _all_of(
                topic
                for topic in described.topics.values()
                if not topic.is_internal and named.fullmatch(topic.name)
            )
        names = self._names()
        described = await describe(names)
        for name in names:
            described.topic(name)
        if self.topics is not None:
            return _all_of(described.topics[name] for name in self.topics)
        for partition in self.partitions or ():
            described.leader_of(partition)
        return list(self.partitions or ())

    def _names(self) -> Collection[str]:
        return self.topics or {partition.topic for partition in self.partitions or ()}


def subscription(options: Options) -> Subscription:
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
        return Subscription(topics=topics)
    if given == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"option subscribePattern is {text!r}: {error}") from None
        return Subscription(pattern=text)
    return Subscription(partitions=_assigned(options))


def _assigned(options: Options) -> tuple[TopicPartition, ...]:
    topics = options.json("assign")
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
            f'option assign is {options.text("assign")!r}: it is JSON such as {{"topic": [0, 1]}}'
        )
    return partitions


def _all_of(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [place for topic in topics for place in topic.places]
