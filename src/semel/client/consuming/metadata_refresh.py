"""Keeping an eye on the cluster: its leaders, its topics, and how many partitions they have."""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import NO_NODE, ClusterMetadata
from semel.client.consuming.membership_loop import MembershipLoop
from semel.client.consuming.partition import Spot
from semel.client.consuming.positions import Positions
from semel.client.consuming.reach import Reach
from semel.client.consuming.settings import ConsumerSettings
from semel.errors import RequestError, SemelError, UnknownTopicOrPartition
from semel.types import TopicPartition

_log = logging.getLogger(__name__)

_PAUSE_S = 0.1
_MISSING_PAUSE_S = 1.0
"""How soon a topic or a leader that is not there is asked for again."""


class MetadataRefresh:
    def __init__(
        self,
        cluster: Cluster,
        fetching_clusters: Collection[Cluster],
        positions: Positions,
        settings: ConsumerSettings,
        learned: Callable[[], object],
        report: Callable[[SemelError], object],
    ) -> None:
        self._cluster = cluster
        self._fetching_clusters = fetching_clusters
        self._positions = positions
        self._settings = settings
        self._learned = learned
        self._report = report
        self._reach = Reach(settings.block_timeout_ms, report)
        self._due = asyncio.Event()
        self.pattern: re.Pattern[str] | None = None
        self.membership_loop: MembershipLoop | None = None
        self.lost_position: Callable[[Spot], object] = lambda spot: None
        """Told of each whose topic was made anew."""
        self._described: ClusterMetadata | None = None
        self._missing: set[str] = set()
        """What was said not to exist."""

    def find_leaders(self) -> None:
        """There are new partitions: who leads them may be known already."""
        if self._described is not None:
            self._learn_topics(self._described)
            self._learn_leaders(self._described)
        if self._positions.has_unled:
            self.look()

    def look(self) -> None:
        """Something is not as it was known to be."""
        self._due.set()

    async def run(self) -> None:
        pause_s: float | None = None
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            try:
                pause_s = await self._look()
            except SemelError as error:
                if not (isinstance(error, RequestError) and error.retriable):
                    self._report(error)
                self._due.set()
            # However often it is asked for, a cluster in motion is not asked at every moment.
            await asyncio.sleep(_PAUSE_S)

    async def _look(self) -> float:
        """The time until the next look, unless something happens before."""
        wanted, pattern = self._wanted(), self.pattern
        with self._reach.attempt():
            described = await self._cluster.describe(
                None if pattern is not None else wanted,
                may_create=self._settings.allow_auto_create_topics,
            )
        for cluster in self._fetching_clusters:
            cluster.learn_brokers(described.brokers)
        self._learn_topics(described)
        self._described = described
        self._learn_leaders(described)
        if self.membership_loop is not None:
            # The application may have changed its mind meanwhile.
            if pattern is not None and pattern is self.pattern:
                self.membership_loop.membership.subscribe(matching(pattern, described))
            self.membership_loop.membership.noticed(partition_counts(described))
            self.membership_loop.wake()
        for name, error in described.refused.items():
            if name in wanted and not error.retriable:
                self._report(error)
        self._warn_of_missing(described)
        self._learned()
        if self._positions.has_unled or not wanted <= described.topics.keys():
            return _MISSING_PAUSE_S
        return self._settings.metadata_age_ms_max / 1000

    def _wanted(self) -> set[str]:
        wanted = self._read_topics()
        if self.membership_loop is not None:
            wanted |= self.membership_loop.membership.watched_topics
        return wanted

    def _read_topics(self) -> set[str]:
        """Without those that only other members of the group have subscribed to."""
        read = {partition.topic for partition in self._positions.partitions}
        if self.membership_loop is not None:
            read |= self.membership_loop.membership.topics
        return read

    def _warn_of_missing(self, described: ClusterMetadata) -> None:
        """Once for each: a name that is misspelt is waited for without end."""
        missing: dict[str, str] = {}
        if not self._settings.allow_auto_create_topics:
            for name in self._read_topics():
                if isinstance(described.refused.get(name), UnknownTopicOrPartition):
                    missing[f"topic {name}"] = ""
        for partition in self._positions.partitions:
            topic = described.topics.get(partition.topic)
            if topic is not None and not 0 <= partition.partition < len(topic.partitions):
                missing[f"partition {partition}"] = f": the topic has {len(topic.partitions)}"
        for subject in sorted(missing.keys() - self._missing):
            _log.warning(
                "%s does not exist%s; it is read when it is there", subject, missing[subject]
            )
        self._missing = set(missing)

    def _learn_topics(self, described: ClusterMetadata) -> None:
        """Where a topic was deleted and made anew, a position tells nothing of the new one."""
        lost = self._positions.learn_topics(
            {name: topic.topic_id for name, topic in described.topics.items()}
        )
        for spot in lost:
            self.lost_position(spot)

    def _learn_leaders(self, described: ClusterMetadata) -> None:
        leaders: dict[TopicPartition, tuple[int | None, int]] = {}
        for partition in self._positions.partitions:
            topic = described.topics.get(partition.topic)
            if topic is None or not 0 <= partition.partition < len(topic.partitions):
                self._positions.forget_leader(partition)
                continue
            one = topic.partitions[partition.partition]
            leader_id = None if one.leader_id == NO_NODE else one.leader_id
            leaders[partition] = (leader_id, one.leader_epoch)
        self._positions.learn_leaders(leaders)

    async def count_partitions(self, topics: Collection[str]) -> Mapping[str, int]:
        """Of those that exist."""
        return partition_counts(await self._cluster.describe(topics))


def partition_counts(described: ClusterMetadata) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in described.topics.items()}


def matching(pattern: re.Pattern[str], described: ClusterMetadata) -> set[str]:
    """Internal topics have to be asked for by name."""
    return {
        name
        for name, topic in described.topics.items()
        if not topic.is_internal and pattern.fullmatch(name)
    }
