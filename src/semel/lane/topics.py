"""A topic as the lane knows it, and what may be asked of its name and its partitions."""

import re

from semel.errors import InvalidPartitions, InvalidTopic
from semel.log.partition import Partition
from semel.types import INTERNAL_TOPICS

NAME_LENGTH_MAX = 249
PARTITION_COUNT_MAX = 100_000
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class Topic:
    __slots__ = ("batch_size_max", "config", "is_log_append_time", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, config: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[Partition] = []
        self.configure(config)

    def configure(self, config: dict[str, str]) -> None:
        self.config = config
        """Only what was set for this topic; defaults are the broker's."""
        limit = config.get("max.message.bytes")
        self.batch_size_max = None if limit is None else int(limit)
        self.is_log_append_time = config.get("message.timestamp.type") == "LogAppendTime"

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


def check_name(name: str) -> None:
    if not name:
        raise InvalidTopic("a topic needs a name")
    if name in (".", ".."):
        raise InvalidTopic(f"a topic cannot be named {name!r}")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopic(f"the name has {len(name)} characters, more than {NAME_LENGTH_MAX}")
    if not _LEGAL_NAME.fullmatch(name):
        raise InvalidTopic(
            f"topic name {name!r} has characters other than letters, digits, '.', '_' and '-'"
        )


def check_partition_count(count: int) -> None:
    if count < 1:
        raise InvalidPartitions(f"{count} partitions: a topic needs at least one")
    if count > PARTITION_COUNT_MAX:
        raise InvalidPartitions(f"{count} partitions: more than {PARTITION_COUNT_MAX}")
