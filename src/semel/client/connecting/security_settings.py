"""Kafka's settings for TLS and SASL, as the client takes them."""

import re
from collections.abc import Callable

from semel.client.connecting.sasl import MECHANISMS
from semel.client.security import PLAINTEXT, Sasl, Security, Tls
from semel.errors import ConfigError

SECURITY_SETTINGS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "security.protocol",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_CREDENTIAL = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def security_from(value_of: Callable[[str], str | None], prefix: str) -> Security:
    """From the value of each setting; `prefix` is what stands before its name in a refusal."""
    return _Settings(value_of, prefix).security()


class _Settings:
    def __init__(self, value_of: Callable[[str], str | None], prefix: str) -> None:
        self._value_of = value_of
        self._prefix = prefix

    def security(self) -> Security:
        protocol = (self._value_of("security.protocol") or "plaintext").lower()
        if protocol not in _PROTOCOLS:
            raise ConfigError(
                f"{self._prefix}security.protocol is {protocol!r}: "
                f"it is one of {', '.join(_PROTOCOLS)}"
            )
        if protocol == "plaintext":
            return PLAINTEXT
        return Security(
            self._tls() if protocol.endswith("ssl") else None,
            self._sasl() if protocol.startswith("sasl") else None,
        )

    def _tls(self) -> Tls:
        for store in ("truststore", "keystore"):
            kind = self._value_of(f"ssl.{store}.type")
            if kind is not None and kind.upper() != "PEM":
                raise ConfigError(
                    f"{self._prefix}ssl.{store}.type is {kind!r}: export the certificates as PEM"
                )
        checked = self._value_of("ssl.endpoint.identification.algorithm")
        certificates = self._value_of("ssl.truststore.certificates")
        return Tls(
            trusted=certificates or self._value_of("ssl.truststore.location"),
            certificate_file=self._value_of("ssl.keystore.location"),
            key_password=self._value_of("ssl.key.password"),
            # Kafka switches the check off by an empty name.
            checks_host=checked is None or checked != "",
        )

    def _sasl(self) -> Sasl:
        mechanism = (self._value_of("sasl.mechanism") or "").upper()
        if mechanism not in MECHANISMS:
            raise ConfigError(
                f"{self._prefix}sasl.mechanism is {mechanism!r}: "
                f"it is one of {', '.join(MECHANISMS)}"
            )
        text = self._value_of("sasl.jaas.config") or ""
        found = {name: _unquoted(value) for name, value in _CREDENTIAL.findall(text)}
        if found.keys() != {"username", "password"}:
            # The text itself is not shown: it holds a password.
            raise ConfigError(
                f'{self._prefix}sasl.jaas.config needs username="..." and password="..." within'
            )
        return Sasl(mechanism, found["username"], found["password"])


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
