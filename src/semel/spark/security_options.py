"""Kafka's settings for TLS and SASL, as the client takes them."""

import re
from typing import Protocol

from semel.client.sasl import MECHANISMS
from semel.client.security import PLAINTEXT, Sasl, Security, Tls
from semel.errors import ConfigError

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_CREDENTIAL = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


class _Options(Protocol):
    def text(self, name: str) -> str | None: ...


def security_of(options: _Options) -> Security:
    protocol = (options.text("kafka.security.protocol") or "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"option kafka.security.protocol is {protocol!r}: it is one of {', '.join(_PROTOCOLS)}"
        )
    if protocol == "plaintext":
        return PLAINTEXT
    return Security(
        _tls(options) if protocol.endswith("ssl") else None,
        _sasl(options) if protocol.startswith("sasl") else None,
    )


def _tls(options: _Options) -> Tls:
    for store in ("truststore", "keystore"):
        kind = options.text(f"kafka.ssl.{store}.type")
        if kind is not None and kind.upper() != "PEM":
            raise ConfigError(
                f"option kafka.ssl.{store}.type is {kind!r}: export the certificates as PEM"
            )
    checked = options.text("kafka.ssl.endpoint.identification.algorithm")
    certificates = options.text("kafka.ssl.truststore.certificates")
    return Tls(
        trusted=certificates or options.text("kafka.ssl.truststore.location"),
        certificate_file=options.text("kafka.ssl.keystore.location"),
        key_password=options.text("kafka.ssl.key.password"),
        # Kafka switches the check off by an empty name.
        checks_host=checked is None or checked != "",
    )


def _sasl(options: _Options) -> Sasl:
    mechanism = (options.text("kafka.sasl.mechanism") or "").upper()
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"option kafka.sasl.mechanism is {mechanism!r}: it is one of {', '.join(MECHANISMS)}"
        )
    text = options.text("kafka.sasl.jaas.config") or ""
    found = {name: _unquoted(value) for name, value in _CREDENTIAL.findall(text)}
    if found.keys() != {"username", "password"}:
        # The text itself is not shown: it holds a password.
        raise ConfigError(
            'option kafka.sasl.jaas.config needs username="..." and password="..." within'
        )
    return Sasl(mechanism, found["username"], found["password"])


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
