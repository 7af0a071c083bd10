"""What the options of a source say, in one value that travels to the tasks."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from semel.client.cluster.blocking import ClientOptions
from semel.client.cluster.offsets import Isolation
from semel.client.columns.schema import COLUMNS
from semel.errors import ConfigError
from semel.spark.offsets import OffsetRange, split
from semel.spark.options import SOURCE, Options
from semel.spark.subscription import QuerySubscription, subscription

_ISOLATIONS = {
    "read_committed": Isolation.READ_COMMITTED,
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
}
_TRIGGER_DELAY_MS_DEFAULT = 15 * 60_000
_FETCH_SIZE_DEFAULT = 16 * 1024 * 1024


class RateLimits(NamedTuple):
    """How much one micro-batch reads; None is no limit."""

    offsets_max: int | None
    offsets_min: int | None
    delay_ms_max: int
    """How long fewer than `offsets_min` may wait for others."""
    size_max: int | None


class SourceSettings(NamedTuple):
    client: ClientOptions
    """For lookups at the driver."""
    task_client: ClientOptions
    """For tasks, which wait longer: what they read is known to be there."""
    subscription: QuerySubscription
    isolation: Isolation
    limits: RateLimits
    partitions_min: int
    partition_size_max: int | None
    """Offsets that one task reads at most."""
    fails_on_data_loss: bool
    lookup_retries: int
    lookup_pause_ms: int
    fetch_size: int
    columns: tuple[str, ...]

    def split(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """For tasks."""
        return split(ranges, self.partitions_min, self.partition_size_max)


def source_options(given: Mapping[str, str]) -> Options:
    return Options(given, SOURCE)


def source_settings(options: Options) -> SourceSettings:
    has_headers = options.flag("includeHeaders", False)
    name = options.choice("kafka.isolation.level", "read_committed", list(_ISOLATIONS))
    client = options.client()
    poll_timeout_ms = options.number("kafkaConsumer.pollTimeoutMs", 120_000, least=1)
    return SourceSettings(
        client=client,
        task_client=dataclasses.replace(
            client, timeout_ms=poll_timeout_ms, request_timeout_ms=client.timeout_ms
        ),
        subscription=subscription(options),
        isolation=_ISOLATIONS[name],
        limits=_rate_limits(options),
        partitions_min=options.number("minPartitions", 0),
        partition_size_max=options.number_or_none("maxRecordsPerPartition"),
        fails_on_data_loss=options.flag("failOnDataLoss", True),
        lookup_retries=options.number("fetchOffset.numRetries", 3),
        lookup_pause_ms=options.number("fetchOffset.retryIntervalMs", 10),
        fetch_size=options.number("kafka.fetch.max.bytes", _FETCH_SIZE_DEFAULT, least=1),
        columns=(*COLUMNS, "headers") if has_headers else COLUMNS,
    )


def _rate_limits(options: Options) -> RateLimits:
    limits = RateLimits(
        offsets_max=options.number_or_none("maxOffsetsPerTrigger"),
        offsets_min=options.number_or_none("minOffsetsPerTrigger"),
        delay_ms_max=options.duration_ms("maxTriggerDelay", _TRIGGER_DELAY_MS_DEFAULT),
        size_max=options.size_or_none("maxBytesPerTrigger"),
    )
    if limits.offsets_max is not None and (limits.offsets_min or 0) > limits.offsets_max:
        raise ConfigError(
            f"option minOffsetsPerTrigger is {limits.offsets_min}, "
            f"more than maxOffsetsPerTrigger, {limits.offsets_max}"
        )
    return limits
