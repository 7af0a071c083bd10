"""The limits and delays of consumer groups, with Kafka's defaults."""

from typing import NamedTuple

STRING_BYTES_MAX = 2**15 - 1
"""What a string of Kafka's non-flexible formats can hold."""

INSTANCE_ID_SIZE_MAX = 249
CLIENT_ID_IN_MEMBER_ID_MAX = 255
TOPIC_NAME_SIZE_MAX = 249


class GroupSettings(NamedTuple):
    """Named after Kafka's `group.*` and `offset*` settings."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    member_count_max: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    """A first JoinGroup waits no longer than this: its client may be long gone."""
    offset_metadata_size_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    retention_check_interval_ms: int = 600_000
