"""Addresses as settings and options have them: HOST:PORT, or NAME://HOST:PORT of listeners."""

import re
from typing import NamedTuple

from semel.errors import ConfigError

PORT_MAX = 65535
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

Address = tuple[str, int]


class Endpoint(NamedTuple):
    """Of a listener; it may go without a name where there is only one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        """As Kafka writes it in its settings."""
        prefix = f"{self.name}://" if self.name else ""
        return prefix + written((self.host, self.port))


def address(text: str) -> Address:
    """`HOST:PORT`, with an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    is_port = port.isdecimal() and int(port) <= PORT_MAX
    if not colon or not is_port or "/" in host or "," in host:
        raise ConfigError(f"{text!r} is not of the form HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoints(setting: str, text: str) -> tuple[Endpoint, ...]:
    """Separated by commas, each name once. Raises ConfigError."""
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        name, separator, rest = part.rpartition("://")
        if separator and not _NAME.fullmatch(name):
            raise ConfigError(f"{setting}: {name!r} is no name of a listener")
        try:
            found.append(Endpoint(name, *address(rest)))
        except ConfigError as error:
            raise ConfigError(f"{setting}: {error}") from None
    names = [each.name.lower() for each in found]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"{setting}: {text!r} needs another name for each, as CLIENTS://HOST:PORT"
        )
    return tuple(found)
