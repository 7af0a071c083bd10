"""The settings of a broker in layers: what it was started with, and what was set since.

What is set while it runs, for this broker or for all, is a fact in lane 0. It counts at once, and
comes before what the broker was started with; the first layer that has a value decides.
"""

from collections.abc import Mapping
from typing import Final

from semel.broker.config import COARSER_RETENTION_MS, BrokerConfig, about_settings, changed
from semel.broker.config_resources import ConfigSource, ConfigSynonym
from semel.errors import ConfigError, InvalidConfig, InvalidRequest
from semel.spelling import unknown_name

ALL_BROKERS: Final = ""
"""The name under which settings of all brokers stand."""

_ABOUT: Final = about_settings()


class LayeredConfig:
    def __init__(
        self,
        static: BrokerConfig,
        for_all: Mapping[str, str] | None = None,
        for_this: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ConfigError if the layers do not go together."""
        self._static = static
        self._for_all = dict(for_all or {})
        self._for_this = dict(for_this or {})
        self.effective = changed(static, self._for_all | self._for_this)

    @property
    def for_all(self) -> Mapping[str, str]:
        return self._for_all

    def with_layer(self, name: str, config: Mapping[str, str]) -> "LayeredConfig":
        """As it would be, of this broker or another one. Raises InvalidConfig, or InvalidRequest
        for what cannot be changed."""
        for each in config:
            if each in COARSER_RETENTION_MS:
                raise InvalidRequest(
                    f"{each} is for a start: while the broker runs, set log.retention.ms"
                )
            if each not in _ABOUT:
                raise InvalidConfig(unknown_name("setting", each, _ABOUT))
            if _ABOUT[each].is_fixed:
                raise InvalidRequest(f"{each} cannot be changed while the broker runs")
        try:
            if name == ALL_BROKERS:
                return LayeredConfig(self._static, config, self._for_this)
            return LayeredConfig(self._static, self._for_all, config)
        except ConfigError as error:
            raise InvalidConfig(str(error)) from error

    def synonyms(self, name: str) -> list[ConfigSynonym]:
        """Every value that this setting has somewhere; the first one counts."""
        default = _ABOUT[name].default
        static = self._static.shown()[name]
        found = []
        if name in self._for_this:
            value = self._for_this[name]
            found.append(ConfigSynonym(name, value, ConfigSource.DYNAMIC_BROKER))
        if name in self._for_all:
            value = self._for_all[name]
            found.append(ConfigSynonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER))
        if static != default:
            found.append(ConfigSynonym(name, static, ConfigSource.STATIC_BROKER))
        found.append(ConfigSynonym(name, default, ConfigSource.DEFAULT))
        return found
