"""How a command reaches its cluster: of -X, of Kafka's files, of profiles, of the environment.

Profiles are tables of a TOML file, with the names that Kafka's clients have:

    [profiles.production]
    bootstrap.servers = "one:9093,two:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "ana"
    sasl.password = { file = "~/.secrets/kafka" }

A profile that is called `default` counts where nothing else names brokers.
"""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from semel.client.connecting.address import BOOTSTRAP_SERVERS_VARIABLE, named_bootstrap_servers
from semel.client.connecting.security_settings import (
    NAMES_OF_LIBRDKAFKA,
    SECURITY_SETTINGS,
    check_holds_no_secret,
    security_from,
)
from semel.errors import ConfigError
from semel.properties import read_properties, read_text
from semel.security import Security
from semel.spelling import unknown_name

PROFILE_VARIABLE = "SEMEL_PROFILE"
SHOWN_PATH = "~/.config/semel/config.toml"
TIMEOUT_MS = 30_000
_DEFAULT_PROFILE = "default"
_PROFILES = "profiles"
_REFERENCES = ({"file"}, {"env"})

_NAMES = {**NAMES_OF_LIBRDKAFKA, "metadata.broker.list": "bootstrap.servers"}

CONNECTION_SETTINGS: Mapping[str, str] = {
    "bootstrap.servers": f"brokers to ask first; else those of {BOOTSTRAP_SERVERS_VARIABLE}",
    "metadata.broker.list": "librdkafka's name of bootstrap.servers",
    "client.id": "what brokers call the client; `semel` by default",
    "request.timeout.ms": f"how long one request may take; {TIMEOUT_MS} by default",
    **SECURITY_SETTINGS,
}
"""What each means."""

Settings = Mapping[str, str]


class Connection(NamedTuple):
    bootstrap_servers: str | None
    """None: as the environment says, or where brokers listen by default."""
    security: Security
    names_security: bool
    """Whether it is what somebody has said, and not what counts without a word."""
    client_id: str
    timeout_ms: int


def check_is_said(option: str, text: str | None) -> None:
    if text == "":
        # As of a variable that is not set: another cluster is not what was meant.
        raise ConfigError(f"{option} is empty: leave it out, or say which")


def connection_of(
    bootstrap_servers: str | None,
    profile: str | None,
    command_config: Path | None,
    given: Iterable[tuple[str, str]],
) -> Connection:
    """What is named first here comes before the others; but `bootstrap_servers` before all. They
    are empty where no broker is to be asked."""
    check_is_said("--profile", profile)
    layers: list[tuple[str, Settings]] = [("", _checked_arguments(given))]
    if command_config is not None:
        layers.append((f"{command_config}: ", _of_kafkas_file(command_config)))
    named = profile or os.environ.get(PROFILE_VARIABLE) or None
    has_servers = bootstrap_servers is not None or any(
        "bootstrap.servers" in settings for _, settings in layers
    )
    if named is not None:
        layers.append((f"profile {named}: ", _of_profile(named)))
    elif not has_servers and named_bootstrap_servers() is None:
        layers.append((f"profile {_DEFAULT_PROFILE}: ", _profiles().get(_DEFAULT_PROFILE, {})))
    value_of = _first_of(layers)
    prefixes = [prefix for prefix, settings in layers if settings]
    prefix = prefixes[0] if len(prefixes) == 1 else ""
    return Connection(
        bootstrap_servers or value_of("bootstrap.servers"),
        security_from(value_of, prefix),
        any(not SECURITY_SETTINGS.keys().isdisjoint(settings) for _, settings in layers),
        value_of("client.id") or "semel",
        _parse_timeout_ms(value_of("request.timeout.ms"), prefix),
    )


def _first_of(layers: list[tuple[str, Settings]]) -> Callable[[str], str | None]:
    def value_of(name: str) -> str | None:
        return next((settings[name] for _, settings in layers if name in settings), None)

    return value_of


def _parse_timeout_ms(text: str | None, prefix: str) -> int:
    if text is None:
        return TIMEOUT_MS
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{prefix}request.timeout.ms is {text!r}: it is a number of milliseconds")
    return int(text)


def _checked_arguments(given: Iterable[tuple[str, str]]) -> Settings:
    settings = {}
    for name, value in given:
        if name not in CONNECTION_SETTINGS:
            raise ConfigError(unknown_name("setting", name, CONNECTION_SETTINGS))
        check_holds_no_secret(name, value)
        settings[_NAMES.get(name, name)] = value
    return settings


def _of_kafkas_file(file: Path) -> Settings:
    """Whatever else a client is told there is not for commands, and is passed over."""
    settings = {}
    for name, value in read_properties(file).items():
        if name in CONNECTION_SETTINGS:
            settings[_NAMES.get(name, name)] = value
        elif name.startswith(("sasl.", "security.", "ssl.")):
            known = ", ".join(sorted(SECURITY_SETTINGS))
            raise ConfigError(f"{file}: {name} cannot be honoured: there are {known}")
    return settings


# Profiles


def profiles_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "semel" / "config.toml"


def _of_profile(name: str) -> Settings:
    profiles = _profiles()
    if name not in profiles:
        file = profiles_file()
        if not file.exists():
            raise ConfigError(f"there is no profile {name!r}, as there is no {file}")
        raise ConfigError(f"{file}: {unknown_name('profile', name, profiles)}")
    return profiles[name]


def _profiles() -> Mapping[str, Settings]:
    file = profiles_file()
    if not file.exists():
        return {}
    try:
        found = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: {error}") from None
    for name in found.keys() - {_PROFILES}:
        raise ConfigError(f"{file}: {unknown_name('table', name, [_PROFILES])}")
    profiles = found.get(_PROFILES, {})
    tables = profiles.values() if isinstance(profiles, dict) else [profiles]
    if not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{file}: a profile is a table, as [{_PROFILES}.{_DEFAULT_PROFILE}]")
    return {
        name: _checked_profile(f"{file}: profile {name}", profile, file.parent)
        for name, profile in profiles.items()
    }


def _checked_profile(subject: str, profile: Mapping[str, object], folder: Path) -> Settings:
    settings = {}
    for name, value in _flattened(profile, "", folder):
        if name not in CONNECTION_SETTINGS:
            raise ConfigError(f"{subject}: {unknown_name('setting', name, CONNECTION_SETTINGS)}")
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ConfigError(f"{subject}: {name} has to be text")
        settings[_NAMES.get(name, name)] = str(value)
    return settings


def _flattened(
    table: Mapping[str, object], prefix: str, folder: Path
) -> Iterable[tuple[str, object]]:
    """Names without quotes are tables within tables to TOML."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if not isinstance(value, dict):
            yield name, value
        elif value.keys() in _REFERENCES and all(isinstance(each, str) for each in value.values()):
            yield name, _reference(value, folder)
        else:
            yield from _flattened(value, f"{name}.", folder)


def _reference(table: Mapping[str, str], folder: Path) -> str:
    if "env" in table:
        return f"${{env:{table['env']}}}"
    return f"${{file:{folder / Path(table['file']).expanduser()}}}"
