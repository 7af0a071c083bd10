"""From what a caller hands in to a record in its partition's queue."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any

from semel.client.cluster.metadata import NO_NODE, TopicMetadata
from semel.client.payloads import encode
from semel.client.producing.batch import ProducerBatch
from semel.client.producing.core import ProducerCore
from semel.client.producing.partitioners import Partitioner
from semel.client.producing.queue import PartitionQueue
from semel.client.producing.settings import ProducerOptions
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.records.records import RecordHeader
from semel.types import TopicPartition

_TIMESTAMP_MS_MAX = 2**62
"""Of either sign, so that the difference of any two is written in 64 bits."""

Serializer = Callable[[Any], bytes | None]
AnySerializer = Callable[[Any], bytes | str | None]
"""As callers have them: text is written as UTF-8."""
Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


def as_bytes(content: object) -> bytes | None:
    """How headers are written, and what serializers return."""
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    kind = type(content).__name__
    raise TypeError(f"a header is bytes or str, not {kind}")


def serializers_of(options: ProducerOptions) -> tuple[Serializer, Serializer]:
    """Those of keys and of values."""
    return (
        _serializer("key_serializer", options.get("key_serializer", encode)),
        _serializer("value_serializer", options.get("value_serializer", encode)),
    )


def _serializer(option: str, serialize: AnySerializer) -> Serializer:
    if serialize is encode:
        return encode
    if not callable(serialize):
        raise ConfigError(f"{option} is {serialize!r}, and must be a function")

    def serialized(content: object) -> bytes | None:
        made = serialize(content)
        if made is None or type(made) is bytes:
            return made
        if not isinstance(made, str | bytes | bytearray | memoryview):
            raise TypeError(f"{option} returned {type(made).__name__}, and not bytes or str")
        return as_bytes(made)

    return serialized


def as_headers(headers: Headers | None) -> Sequence[RecordHeader]:
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else map(_as_pair, headers)
    return [(_as_name(name), as_bytes(content)) for name, content in pairs]


def _as_pair(given: object) -> tuple[object, object]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"headers are a mapping, or pairs of name and value; {given!r:.60} is none")
    return given[0], given[1]


def _as_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is a str, not {type(name).__name__}")
    return name


def as_timestamp_ms(timestamp_ms: int) -> int:
    try:
        whole = index(timestamp_ms)
    except TypeError:
        raise TypeError(
            f"timestamp_ms is {timestamp_ms!r:.60}: it has to be a whole number of milliseconds "
            "since 1970"
        ) from None
    if abs(whole) > _TIMESTAMP_MS_MAX:
        raise ValueError(f"timestamp_ms is {whole}, which is no time at all")
    return whole


class Intake:
    def __init__(
        self,
        core: ProducerCore,
        partitioner: Partitioner,
        key_serializer: Serializer = encode,
        value_serializer: Serializer = encode,
    ) -> None:
        self._core = core
        self._partitioner = partitioner
        self.key_bytes = key_serializer
        self.value_bytes = value_serializer
        self.is_plain = key_serializer is encode and value_serializer is encode
        self.queues: dict[str, list[PartitionQueue]] = {}
        """The partitions of each topic that is known."""

    def learn(self, topic: TopicMetadata) -> None:
        partitions = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        known = self.queues.get(topic.name, [])
        if len(partitions) != len(known):
            self.queues[topic.name] = [self._core.queue(partition) for partition in partitions]
        self._core.learn_topic_id(topic.name, topic.topic_id)
        self._core.learn_leaders(
            (partition, None if each.leader_id == NO_NODE else each.leader_id)
            for partition, each in zip(partitions, topic.partitions, strict=True)
        )

    def put(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
        timestamp_ms: int,
        partition: int | None,
    ) -> ProducerBatch:
        """The batch that has the record, as its last one; the topic is known."""
        queues = self.queues[topic]
        if partition is None:
            size = (0 if value is None else len(value)) + (0 if key is None else len(key))
            partition = self._partitioner.choose(topic, key, size, len(queues))
        try:
            is_there = 0 <= partition < len(queues)
        except TypeError:
            raise TypeError(f"partition is {partition!r}: it has to be a number") from None
        if not is_there:
            raise UnknownTopicOrPartition(
                f"topic {topic} has no partition {partition}: it has {len(queues)}"
            )
        return self._core.append(queues[partition], key, value, headers, timestamp_ms)
