"""Offsets of a query as Spark keeps them, and how many of them one micro-batch and one task get.

The JSON is that of Spark's own Kafka source, so that a checkpoint made by it can be continued. The
ids of the topics are in it as topics without partitions, named `topic@id`: no topic may have such a
name, and whoever knows nothing of ids finds no offset there.
"""

import math
import operator
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from semel.types import TopicPartition

Offsets = Mapping[TopicPartition, int]

_BEFORE_ID = "@"
OFFSETS_EXAMPLE = '{"topic": {"0": 23, "1": 42}}'


class Reached(NamedTuple):
    """How far a query reads, and in which topics: one that is created again has another id."""

    offsets: Offsets
    topic_ids: Mapping[str, str]
    """As Kafka's tools show them; nothing of topics whose id is not known."""

    def remade(self, later: "Reached") -> set[str]:
        """The topics that are others by then, under the same name."""
        return {
            topic
            for topic, topic_id in self.topic_ids.items()
            if later.topic_ids.get(topic, topic_id) != topic_id
        }


class OffsetRange(NamedTuple):
    """The offsets from `start` up to, without, `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def to_json(reached: Reached) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(reached.offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    for topic in list(topics):
        if topic in reached.topic_ids:
            topics[f"{topic}{_BEFORE_ID}{reached.topic_ids[topic]}"] = {}
    return topics


def reached_from_json(topics: Any) -> Reached:
    named = (topic.partition(_BEFORE_ID) for topic in topics)
    return Reached(from_json(topics), {topic: id_ for topic, separator, id_ in named if separator})


def from_json(topics: Any) -> dict[TopicPartition, int]:
    """Offsets, or timestamps, by topic and partition; ValueError if it is anything else."""
    numbers: dict[TopicPartition, int] = {}
    try:
        for topic, partitions in topics.items():
            for partition, number in partitions.items():
                numbers[TopicPartition(topic, int(partition))] = operator.index(number)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"it is JSON such as {OFFSETS_EXAMPLE}") from None
    return numbers


def count_between(start: Offsets, end: Offsets) -> int:
    return sum(max(0, offset - start.get(partition, offset)) for partition, offset in end.items())


def limited(start: Offsets, end: Offsets, count_max: int) -> dict[TopicPartition, int]:
    """An end with about `count_max` offsets, of which each partition gets its share.

    Each partition with anything new advances, so that a small one is not kept waiting.
    """
    total = count_between(start, end)
    if total <= count_max:
        return dict(end)
    shortened = {}
    for partition, offset in end.items():
        begin = start.get(partition, offset)
        share = count_max * max(0, offset - begin) / total
        step = math.ceil(share) if share < 1 else math.floor(share)
        shortened[partition] = min(offset, begin + step)
    return shortened


def limited_by_size(
    start: Offsets, end: Offsets, size_max: int, size_per_offset: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """As `limited`, by the bytes that the offsets of each partition are expected to have."""
    counts = {each: max(0, offset - start.get(each, offset)) for each, offset in end.items()}
    total = sum(count * size_per_offset.get(each, 0.0) for each, count in counts.items())
    if total <= size_max:
        return dict(end)
    part = size_max / total
    return {
        each: min(offset, start.get(each, offset) + math.ceil(counts[each] * part))
        for each, offset in end.items()
    }


def split(
    ranges: Iterable[OffsetRange], count_min: int = 0, size_max: int | None = None
) -> list[OffsetRange]:
    """The ranges that hold anything, none larger than `size_max`, and about `count_min` at least.

    To have as many, the large ones are cut.
    """
    parts: list[OffsetRange] = []
    for each in ranges:
        if each.size > 0:
            parts += _cut(each, 1 if size_max is None else -(-each.size // size_max))
    if count_min <= len(parts):
        return parts
    total = sum(each.size for each in parts)
    smaller: list[OffsetRange] = []
    for each in parts:
        count = max(1, round(each.size / total * count_min))
        smaller += _cut(each, min(each.size, count))
    return smaller


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [OffsetRange(whole.partition, begin, end) for begin, end in pairwise(bounds)]
