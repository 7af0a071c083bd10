"""The listeners of a broker: where each one is, how it is secured, and what clients are told of it.

Law: where anybody beyond this machine could come in without saying who they are, the broker does
not start, unless it was told to.
"""

import enum
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from semel.access.principal import FIRST_LISTENER
from semel.access.scram import BY_NAME
from semel.broker.config import BrokerConfig
from semel.broker.endpoints import Address, Endpoint, endpoints, written
from semel.errors import ConfigError
from semel.spelling import unknown_name

LISTEN_DEFAULT: Final = "127.0.0.1:9092"
PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (*BY_NAME, PLAIN, OAUTHBEARER)
_LOOPBACK: Final = re.compile(r"127\.\d+\.\d+\.\d+|::1|localhost")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Protocol(enum.Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


class Listener(NamedTuple):
    name: str
    host: str
    port: int
    protocol: Protocol
    advertised: Address | None
    """None: the address that each client came to."""
    config: BrokerConfig
    """As it is for this listener."""
    mechanisms: tuple[str, ...]
    """By which clients sign in; none if they do not."""
    proxies: tuple[Network, ...]
    """Which say for whom they connect."""
    is_for_nodes: bool
    """Other nodes of the cluster come here."""

    @property
    def is_plain(self) -> bool:
        """Whoever connects is served at once."""
        return self.protocol is Protocol.PLAINTEXT and not self.proxies

    @property
    def authenticates(self) -> bool:
        has_certificates = (
            self.protocol is Protocol.SSL and self.config.ssl_client_auth == "required"
        )
        return self.protocol.has_sasl or has_certificates

    @property
    def is_open_to_all(self) -> bool:
        """Also beyond this machine."""
        return not _LOOPBACK.fullmatch(self.host) and not self.authenticates


def shown(listeners: Iterable[Listener], addresses: Iterable[Address]) -> str:
    """Where they listen by now. A plain one that is the only one goes without its name."""
    found = [
        Endpoint(listener.name, *address)
        for listener, address in zip(listeners, addresses, strict=True)
    ]
    if len(found) == 1 and found[0].name == FIRST_LISTENER:
        return written((found[0].host, found[0].port))
    return ",".join(map(str, found))


def advertised_by(listeners: Iterable[Listener]) -> dict[str, Address]:
    return {each.name: each.advertised for each in listeners if each.advertised is not None}


def listeners_of(config: BrokerConfig) -> tuple[Listener, ...]:
    """Raises ConfigError."""
    where = endpoints("listeners", config.listeners or LISTEN_DEFAULT)
    if len(where) > 1 and not all(each.name for each in where):
        raise ConfigError("of several listeners each has a name, as CLIENTS://HOST:PORT")
    where = tuple(each._replace(name=each.name or FIRST_LISTENER) for each in where)
    told = endpoints("advertised.listeners", config.advertised_listeners)
    advertised = _advertised(told, where)
    protocols = _protocols(config.listener_security_protocol_map, where)
    for_nodes = config.inter_broker_listener_name or where[0].name
    names = [each.name for each in where]
    if for_nodes not in names:
        raise ConfigError(unknown_name("listener", for_nodes, names))
    for name, _, _ in config.by_listener:
        if name not in [each.lower() for each in names]:
            raise ConfigError(f"listener.name.{name}: {unknown_name('listener', name, names)}")
    found = []
    for each in where:
        protocol = protocols[each.name]
        own = config.for_listener(each.name)
        listener = Listener(
            *each,
            protocol,
            advertised.get(each.name),
            own,
            _mechanisms(each.name, protocol, own.sasl_enabled_mechanisms),
            _networks(own.proxy_protocol_from),
            each.name == for_nodes,
        )
        _check(listener)
        found.append(listener)
    return tuple(found)


def _advertised(told: Sequence[Endpoint], where: Sequence[Endpoint]) -> Mapping[str, Address]:
    names = [each.name for each in where]
    found = {}
    for each in told:
        if not each.name and len(names) > 1:
            raise ConfigError(
                f"{each} is advertised for one of several listeners: say which, as "
                f"{names[0]}://{each}"
            )
        name = each.name or names[0]
        if name not in names:
            raise ConfigError(f"advertised.listeners: {unknown_name('listener', name, names)}")
        if not each.port or each.host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"{written((each.host, each.port))} is no address at which clients find a broker"
            )
        found[name] = (each.host, each.port)
    return found


def _protocols(text: str, where: Iterable[Endpoint]) -> Mapping[str, Protocol]:
    protocols = {each.name: each for each in Protocol}
    named = dict(protocols)
    for pair in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not colon or protocol.upper() not in protocols:
            raise ConfigError(
                f"listener.security.protocol.map: {pair!r} is not NAME:PROTOCOL with one of "
                f"{', '.join(protocols)}"
            )
        named[name] = protocols[protocol.upper()]
    for each in where:
        if each.name not in named:
            raise ConfigError(
                f"listener {each.name} needs a protocol: listener.security.protocol.map="
                f"{each.name}:SASL_SSL, or another one of {', '.join(protocols)}"
            )
    return named


def _mechanisms(name: str, protocol: Protocol, text: str) -> tuple[str, ...]:
    if not protocol.has_sasl:
        return ()
    found = tuple(dict.fromkeys(filter(None, (part.strip().upper() for part in text.split(",")))))
    if not found:
        raise ConfigError(f"listener {name}: sasl.enabled.mechanisms names none")
    for each in found:
        if each not in MECHANISMS:
            raise ConfigError(
                f"sasl.enabled.mechanisms: {unknown_name('mechanism', each, MECHANISMS)}"
            )
    if PLAIN in found and not protocol.has_tls:
        raise ConfigError(
            f"listener {name}: PLAIN would send passwords for everybody to read: it goes over "
            "SASL_SSL alone"
        )
    return found


def _networks(text: str) -> tuple[Network, ...]:
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        try:
            found.append(ipaddress.ip_network(part, strict=False))
        except ValueError:
            raise ConfigError(
                f"proxy.protocol.from: {part!r} is neither an address nor a network"
            ) from None
    return tuple(found)


def _check(listener: Listener) -> None:
    own, name = listener.config, listener.name
    if listener.protocol.has_tls and not own.ssl_keystore_location:
        raise ConfigError(
            f"listener {name} speaks TLS and has no certificate: ssl.keystore.location names a "
            "file of it and its key"
        )
    if (
        listener.protocol.has_tls
        and own.ssl_client_auth != "none"
        and not own.ssl_truststore_location
    ):
        raise ConfigError(
            f"listener {name} asks for certificates of clients: ssl.truststore.location names who "
            "may have signed them"
        )
    if OAUTHBEARER in listener.mechanisms:
        for setting, value in (
            ("jwks.endpoint.url", own.sasl_oauthbearer_jwks_endpoint_url),
            ("expected.issuer", own.sasl_oauthbearer_expected_issuer),
            ("expected.audience", own.sasl_oauthbearer_expected_audience),
        ):
            if not value:
                raise ConfigError(
                    f"listener {name}: without sasl.oauthbearer.{setting} any token would do"
                )
    if listener.is_open_to_all and not own.allow_unauthenticated:
        raise ConfigError(
            f"anyone who can reach {written((listener.host, listener.port))} could read and write: "
            f"listener {name} asks nobody who they are. Let clients sign in "
            f"(listener.security.protocol.map={name}:SASL_SSL), listen on 127.0.0.1, or say "
            "allow.unauthenticated=true"
        )
