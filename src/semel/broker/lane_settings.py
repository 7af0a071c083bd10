"""What the settings of a broker say to its lanes."""

from typing import Final

from semel.broker.config import BrokerConfig
from semel.groups.settings import GroupSettings
from semel.lane.commands import ExpirySettings, LaneSettings, SettlingSettings
from semel.transactions.commands import TransactionSettings

STORE_SETTLE_BYTES: Final = 64 * 2**20
"""What is settled at once on a store, unless the settings say otherwise."""


def settling_settings(config: BrokerConfig, *, on_store: bool) -> SettlingSettings:
    """Slots are dear to keep, as each is an object, and volumes are not: on a store old data is
    settled early, whatever will become of it, and volumes are joined later."""
    if not on_store:
        return SettlingSettings(config.journal_settle_bytes, config.journal_volume_bytes)
    settle_bytes = config.journal_settle_bytes
    if settle_bytes == BrokerConfig.journal_settle_bytes:
        settle_bytes = STORE_SETTLE_BYTES
    return SettlingSettings(
        settle_bytes,
        config.journal_volume_bytes,
        small_share=4,
        joined_share=2,
        leaves_what_dies=False,
    )


def lane_settings(config: BrokerConfig, *, on_store: bool = False) -> LaneSettings:
    return LaneSettings(
        groups=GroupSettings(
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            member_count_max=config.group_max_size,
            offset_metadata_size_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        ),
        offsets_partition_count=config.offsets_topic_num_partitions,
        transactions=TransactionSettings(
            timeout_ms_max=config.transaction_max_timeout_ms,
        ),
        transactions_partition_count=config.transaction_state_log_num_partitions,
        settling=settling_settings(config, on_store=on_store),
        expiry=ExpirySettings(
            config.producer_id_expiration_ms,
            config.producer_id_expiration_check_interval_ms,
            config.transactional_id_expiration_ms,
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
        ),
    )
