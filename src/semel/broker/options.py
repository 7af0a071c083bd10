"""What `semel serve` was told, and the settings that follow from it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from semel.broker.config import BrokerConfig
from semel.broker.endpoints import endpoints

EPHEMERAL_SEGMENT_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    listen: str | None = None
    advertise: str | None = None
    data: Path = Path("semel-data")
    ephemeral: bool = False
    store: str | None = None
    store_options: tuple[str, ...] = ()
    journal: str | None = None
    node_id: int | None = None
    cache: Path | None = None
    volumes: str | None = None
    config: Path | None = None
    settings: tuple[str, ...] = ()
    metrics: str | None = None
    log_level: str = "info"
    log_format: str = "text"
    workers: int = 1
    as_worker: int | None = None
    """The node id, for who looks at the list of processes: all there is to know is said on standard
    input."""
    stop_with_stdin: bool = False
    """End when standard input does, so that a broker never outlives the process it belongs to."""


def static_config(options: ServeOptions) -> BrokerConfig:
    """Raises ConfigError."""
    config = BrokerConfig.from_sources(options.config, options.settings)
    config = fit(config, is_ephemeral=options.ephemeral)
    if options.listen is not None:
        config = replace(config, listeners=_written("--listen", options.listen))
    if options.advertise is not None:
        config = replace(config, advertised_listeners=_written("--advertise", options.advertise))
    if options.node_id is not None:
        config = replace(config, node_id=options.node_id)
    return config


def _written(option: str, text: str) -> str:
    return ",".join(map(str, endpoints(option, text)))


def fit(config: BrokerConfig, *, is_ephemeral: bool) -> BrokerConfig:
    """A temporary folder is often memory, and two segments are allocated at once."""
    if is_ephemeral and config.journal_segment_bytes == BrokerConfig.journal_segment_bytes:
        return replace(config, journal_segment_bytes=EPHEMERAL_SEGMENT_BYTES)
    return config
