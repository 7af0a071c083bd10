"""What a broker goes by: what it was started with, and what was set while brokers ran."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from semel.broker import log
from semel.broker.config import BrokerConfig, about_settings
from semel.broker.layered_config import ALL_BROKERS, LayeredConfig
from semel.errors import ConfigError
from semel.lane.topics import ConfigureBroker

if TYPE_CHECKING:
    from semel.broker.broker import Broker


class CurrentSettings:
    def __init__(self, broker: "Broker", static: BrokerConfig) -> None:
        self._broker = broker
        self._static = static
        self.layers = LayeredConfig(static)
        self._names = (ALL_BROKERS, str(static.node_id))
        """By which something is set for this broker."""
        self._followed: list[dict[str, str]] = [{}, {}]

    def check_sizes(self, config: BrokerConfig) -> None:
        """Raises ConfigError if a batch that is allowed would not fit into the journal."""
        size_most = self._broker.batch_size_most
        if self._broker.is_shared and config.message_max_bytes > size_most:
            raise ConfigError(
                f"message.max.bytes={config.message_max_bytes}: on a store {size_most} at most"
            )

    def set(self, name: str, config: dict[str, str], only_check: bool) -> None:
        """Give this broker, or all of them, other settings while it runs.

        Raises JournalFull, and refusals.
        """
        layers = self.layers.with_layer(name, config)
        self.check_sizes(layers.effective)
        self._broker.lanes.controller.submit(ConfigureBroker(name, config, only_check))
        if only_check:
            return
        if name in self._names:
            self._adopt(layers)
        if self._broker.topics.telling is not None:
            self._broker.topics.telling.broker(name)

    def look_at_quotas(self) -> None:
        """They may be others than before."""
        broker = self._broker
        if broker.metering.follow(broker.lanes.quotas) and broker.server is not None:
            broker.server.count_requests(is_needed=broker.metering.limits_clients)

    def recall_led(self) -> None:
        """What was set while an earlier process ran. It may not go with what this one was started
        with, which then counts alone: a broker that does not start can be told nothing."""
        self.look_at_quotas()
        self.recall(self._broker.lanes.controller.view.broker_config)

    def recall_followed(self, config_of: Callable[[str], Mapping[str, str]]) -> None:
        """If something was set elsewhere since the last time."""
        configs = [dict(config_of(name)) for name in self._names]
        if configs != self._followed:
            self._followed = configs
            self.recall(config_of)

    def recall(self, config_of: Callable[[str], Mapping[str, str]]) -> None:
        """Take over what was set for this broker, and for all."""
        for_all, for_this = (_known(config_of(name)) for name in self._names)
        try:
            self._adopt(LayeredConfig(self._static, for_all, for_this))
        except ConfigError as error:
            log.warning("what was set while the broker ran is left out", reason=str(error))
            self._adopt(LayeredConfig(self._static))

    def _adopt(self, layers: LayeredConfig) -> None:
        self.layers = layers
        self._broker.configure(layers.effective)


def _known(config: Mapping[str, str]) -> dict[str, str]:
    """Those that this version has, and that may be set while a broker runs."""
    about = about_settings()
    return {
        name: value for name, value in config.items() if name in about and not about[name].is_fixed
    }
