"""Where brokers listen: `host:port` lists as users write them, or their environment names them."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from semel.errors import ConfigError

PORT_DEFAULT = 9092
BOOTSTRAP_SERVERS_DEFAULT = "127.0.0.1:9092"
BOOTSTRAP_SERVERS_VARIABLE = "SEMEL_BOOTSTRAP_SERVERS"
_PORT_MAX = 65_535


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def named_bootstrap_servers() -> str | None:
    """Those that the environment names, for whoever was given none."""
    return os.environ.get(BOOTSTRAP_SERVERS_VARIABLE) or None


def chosen_bootstrap_servers(given: str | Sequence[str] | None) -> str:
    """Those that were given; else those of the environment, or where brokers listen by default."""
    if given is None:
        return named_bootstrap_servers() or BOOTSTRAP_SERVERS_DEFAULT
    return joined_bootstrap_servers(given)


def joined_bootstrap_servers(servers: str | Sequence[str]) -> str:
    """One text, also of the lists that other clients take."""
    if isinstance(servers, str):
        return servers
    if not isinstance(servers, list | tuple) or not all(isinstance(one, str) for one in servers):
        raise ConfigError(
            f"bootstrap_servers is {servers!r}: it has to be text such as one:9092,two:9092, "
            f"or a list of such addresses"
        )
    return ",".join(servers)


def parse_bootstrap_servers(servers: str | Sequence[str] | None) -> tuple[Address, ...]:
    """The addresses in a list such as `one:9092,two` or `[::1]:9092`, or without one the chosen."""
    parts = [part.strip() for part in chosen_bootstrap_servers(servers).split(",")]
    addresses = tuple(_parse_address(part) for part in parts if part)
    if not addresses:
        raise ConfigError(
            f"no bootstrap server is given: name one as HOST:PORT, here or by "
            f"{BOOTSTRAP_SERVERS_VARIABLE}"
        )
    return addresses


def hint_at_variable(tried: Sequence[Address]) -> str:
    """What to add where none of these could be reached: perhaps another one was meant."""
    is_default = tuple(tried) == parse_bootstrap_servers(BOOTSTRAP_SERVERS_DEFAULT)
    if not is_default or named_bootstrap_servers() is not None:
        return ""
    return f"; {BOOTSTRAP_SERVERS_VARIABLE}, which may name another broker, is not set"


def _parse_address(text: str) -> Address:
    # A scheme, as in PLAINTEXT://host:9092, is how brokers write their listeners.
    bare = text.rpartition("://")[2]
    if bare.startswith("["):
        host, closed, rest = bare[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ConfigError(f"{text!r} is not an address: write [HOST]:PORT")
        port = rest[1:]
    else:
        host, _, port = bare.partition(":")
    if not host:
        raise ConfigError(f"{text!r} is not an address: the host is missing")
    if not port:
        return Address(host, PORT_DEFAULT)
    if not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
        raise ConfigError(f"{text!r} is not an address: {port!r} is not a port")
    return Address(host, int(port))
