"""What the options of a sink say, in one value that travels to the tasks."""

from collections.abc import Mapping
from typing import NamedTuple

from semel.client.cluster.blocking import ClientOptions
from semel.client.columns.encode import BATCH_SIZE_MAX
from semel.client.producing.partitioners import KEY_HASHES, KeyHash
from semel.records.compression import Compression
from semel.spark.options import SINK, Options
from semel.types import TopicPartition

_ENCODED_SIZE_MAX_DEFAULT = 128 * 1024 * 1024
_TRANSACTION_TIMEOUT_MS_DEFAULT = 60_000
_VOLUME_TIMEOUT_MS_DEFAULT = 15 * 60_000
MARKER_TOPIC_DEFAULT = "semel-markers"
"""Holds no records: what rows name changes, and the place of a marker must not."""
_MARKER_PARTITION = 0
_NAME_DEFAULT = "sink"


class SinkSettings(NamedTuple):
    client: ClientOptions
    topic: str | None
    """None: a column says it for each row."""
    marker_topic: str | None
    name: str | None
    transactional_id: str | None
    transaction_timeout_ms: int
    compression: Compression
    key_hash: KeyHash
    batch_size_max: int
    checks_marker: bool
    may_override: bool
    encoded_size_max: int
    publishes_offsets: bool
    offsets_group: str | None
    checkpoint: str | None
    group_prefix: str | None
    """Of the groups that a sink names by itself: access lists may know a prefix."""

    @property
    def marker_partition(self) -> TopicPartition:
        """Where a marker with a group of its own stands.

        Kafka takes offsets only for topics that exist: one that is written to, or its own.
        """
        topic = self.marker_topic or self.topic or MARKER_TOPIC_DEFAULT
        return TopicPartition(topic, _MARKER_PARTITION)

    def transactional_id_of(self, query_id: str, name: str = _NAME_DEFAULT) -> str:
        """`name` is for a sink without one: of those in a query no two may have the same."""
        return self.transactional_id or f"semel-{query_id}-{self.name or name}"

    def marker_group_of(self, transactional_id: str) -> str:
        """Never a name that users take for a group of their own."""
        return f"{self.group_prefix or 'semel'}-sink-{transactional_id}"

    def offsets_group_of(self, transactional_id: str) -> str:
        """Where tools that show lag look for it."""
        if self.offsets_group is not None:
            return self.offsets_group
        return f"{self.group_prefix}-{transactional_id}" if self.group_prefix else transactional_id


def sink_options(given: Mapping[str, str]) -> Options:
    return Options(given, SINK)


def sink_settings(options: Options, *, is_for_volume: bool = False) -> SinkSettings:
    compressions = {kind.name.lower(): kind for kind in Compression}
    compression = options.choice("kafka.compression.type", "lz4", list(compressions))
    delivery = options.choice("delivery", "exactly-once", ["exactly-once", "at-least-once"])
    # At volume a transaction is open for as long as its batch is computed.
    timeout_ms = _VOLUME_TIMEOUT_MS_DEFAULT if is_for_volume else _TRANSACTION_TIMEOUT_MS_DEFAULT
    return SinkSettings(
        client=options.client(),
        topic=options.topic("topic"),
        marker_topic=options.topic("markerTopic"),
        name=options.named("name"),
        transactional_id=options.named("transactionalId"),
        transaction_timeout_ms=options.number("kafka.transaction.timeout.ms", timeout_ms, least=1),
        compression=compressions[compression],
        key_hash=KEY_HASHES[options.choice("partitioner", "murmur2", list(KEY_HASHES))],
        batch_size_max=options.number("kafka.max.request.size", BATCH_SIZE_MAX, least=1024),
        checks_marker=delivery == "exactly-once",
        may_override=options.flag("overrideMarker", False),
        encoded_size_max=options.size("maxEncodedBytes", _ENCODED_SIZE_MAX_DEFAULT),
        publishes_offsets=options.flag("publishOffsets", True),
        offsets_group=options.named("offsetsGroup"),
        checkpoint=options.text("checkpointLocation"),
        group_prefix=options.named("groupIdPrefix"),
    )
