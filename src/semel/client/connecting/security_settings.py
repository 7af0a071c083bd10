"""Kafka's settings for TLS and SASL, as the client takes them; librdkafka's names do as well."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from semel.client.connecting.sasl import MECHANISMS, OAUTHBEARER
from semel.errors import ConfigError
from semel.references import dereferenced, is_reference
from semel.security import PLAINTEXT, ClientCredentials, Sasl, Security, Tls, TokenSource
from semel.spelling import unknown_name

NAMES_OF_LIBRDKAFKA: Mapping[str, str] = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
}
"""What Kafka's own clients call otherwise."""

_MEANINGS = {
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    "ssl.truststore.location": "a PEM file of those who may have signed the broker's certificate",
    "ssl.truststore.certificates": "the same as text",
    "ssl.truststore.type": "PEM, JKS or PKCS12; the file itself says which it is",
    "ssl.truststore.password": "of a JKS or PKCS12 store",
    "ssl.keystore.location": "a PEM file with the client's own certificate, and perhaps its key",
    "ssl.keystore.type": "PEM, JKS or PKCS12; the file itself says which it is",
    "ssl.keystore.password": "of a JKS or PKCS12 store",
    "ssl.key.location": "a PEM file with the key, if it is not beside the certificate",
    "ssl.key.password": "what the key is encrypted with",
    "ssl.endpoint.identification.algorithm": (
        "https, or nothing (`none` for librdkafka) to take a certificate of any host"
    ),
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
    "sasl.username": "librdkafka's way to say the username of sasl.jaas.config",
    "sasl.password": "and the password",
    "sasl.jaas.config": 'Java\'s way: username="..." and password="...", or clientId, clientSecret',
    "sasl.login.callback.handler.class": "Kafka's own OAuthBearerLoginCallbackHandler, or none",
    "sasl.oauthbearer.method": "librdkafka's way to say that tokens come from a provider: oidc",
    "sasl.oauthbearer.token.endpoint.url": (
        "where an OpenID provider gives tokens; or a file that holds one, as file:///PATH"
    ),
    "sasl.oauthbearer.client.credentials.client.id": "who asks the provider",
    "sasl.oauthbearer.client.credentials.client.secret": "and with which secret",
    "sasl.oauthbearer.scope": "the scope that is asked for",
    "sasl.oauthbearer.extensions": "what else the broker is told, as NAME=VALUE,NAME=VALUE",
    "https.ca.location": "a PEM file of those who may have signed the provider's certificate",
}
SECURITY_SETTINGS: Mapping[str, str] = _MEANINGS | {
    name: f"librdkafka's name of {meant}" for name, meant in NAMES_OF_LIBRDKAFKA.items()
}
"""What each means."""

SECRETS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)

_STORES = ("PEM", "JKS", "PKCS12")
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_IN_JAAS = re.compile(
    r"""\b(username|password|clientId|clientSecret|scope|extension_\w+)\s*=\s*"""
    r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
_EXTENSION = "extension_"
_CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
_OWN_HANDLERS = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuth\w+"
)


def security_from(value_of: Callable[[str], str | None], prefix: str) -> Security:
    """From the value of each setting; `prefix` is what stands before its name in a refusal."""
    return _Settings(value_of, prefix).security()


def as_security(given: Security | Mapping[str, str]) -> Security:
    """What a client was told: as ours, or by the names that Kafka's clients have."""
    if isinstance(given, Security):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"security is of type {type(given).__name__}: it has to be a semel.security.Security, "
            "or a dictionary with Kafka's names"
        )
    for name, value in given.items():
        if name not in SECURITY_SETTINGS:
            raise ConfigError(unknown_name("security setting", str(name), SECURITY_SETTINGS))
        if not isinstance(value, str):
            raise ConfigError(f"security: {name} has to be text")
    return security_from(given.get, "security: ")


class _Settings:
    def __init__(self, value_of: Callable[[str], str | None], prefix: str) -> None:
        self._value_of = value_of
        self._prefix = prefix

    def security(self) -> Security:
        given = self._text("security.protocol")
        if given is None and self._text("sasl.mechanism") is not None:
            raise self._refusal(
                "sasl.mechanism", "has no effect without security.protocol: say SASL_SSL"
            )
        protocol = (given or "plaintext").lower()
        if protocol not in _PROTOCOLS:
            raise self._refusal(
                "security.protocol",
                f"is {given!r}: it is one of {', '.join(_PROTOCOLS).upper()}",
            )
        if protocol == "plaintext":
            return PLAINTEXT
        return Security(
            self._tls() if protocol.endswith("ssl") else None,
            self._sasl() if protocol.startswith("sasl") else None,
        )

    def _text(self, name: str) -> str | None:
        """Its value, under Kafka's name or librdkafka's."""
        for each in (name, *(other for other, of in NAMES_OF_LIBRDKAFKA.items() if of == name)):
            value = self._value_of(each)
            if value is not None:
                try:
                    return dereferenced(value)
                except ConfigError as error:
                    raise ConfigError(f"{self._prefix}{each}: {error}") from None
        return None

    def _refusal(self, name: str, reason: str) -> ConfigError:
        return ConfigError(f"{self._prefix}{name} {reason}")

    def _tls(self) -> Tls:
        for store in ("truststore", "keystore"):
            kind = self._text(f"ssl.{store}.type")
            if kind is not None and kind.upper() not in _STORES:
                raise self._refusal(
                    f"ssl.{store}.type", f"is {kind!r}: it is one of {', '.join(_STORES)}"
                )
            if self._text(f"ssl.{store}.password") and not self._text(f"ssl.{store}.location"):
                raise self._refusal(
                    f"ssl.{store}.password",
                    f"opens the store that ssl.{store}.location names, and that is missing",
                )
        checked = self._text("ssl.endpoint.identification.algorithm")
        return Tls(
            trusted=self._text("ssl.truststore.certificates")
            or self._text("ssl.truststore.location"),
            certificate_file=self._text("ssl.keystore.location"),
            key_file=self._text("ssl.key.location"),
            key_password=self._text("ssl.key.password"),
            # Kafka switches the check off by an empty name, librdkafka by `none`.
            checks_host=checked is None or checked.lower() not in ("", "none"),
            trusted_password=self._text("ssl.truststore.password"),
            certificate_password=self._text("ssl.keystore.password"),
        )

    def _sasl(self) -> Sasl:
        mechanism = (self._text("sasl.mechanism") or "").upper()
        if mechanism not in MECHANISMS:
            said = f"is {mechanism!r}" if mechanism else "is missing"
            raise self._refusal("sasl.mechanism", f"{said}: it is one of {', '.join(MECHANISMS)}")
        in_jaas = _parse_jaas(self._text("sasl.jaas.config") or "")
        if mechanism == OAUTHBEARER:
            return self._bearer(in_jaas)
        username = in_jaas.get("username", self._text("sasl.username"))
        password = in_jaas.get("password", self._text("sasl.password"))
        if username is None or password is None:
            # The text itself is not shown: it holds a password.
            raise self._refusal(
                "sasl.jaas.config",
                'needs username="..." and password="..." within; or say sasl.username and '
                "sasl.password",
            )
        return Sasl(mechanism, username, password)

    def _bearer(self, in_jaas: Mapping[str, str]) -> Sasl:
        method = self._text("sasl.oauthbearer.method")
        if method is not None and method.lower() != "oidc":
            raise self._refusal("sasl.oauthbearer.method", f"is {method!r}, and can be oidc alone")
        handler = self._text("sasl.login.callback.handler.class")
        if handler is not None and not _OWN_HANDLERS.fullmatch(handler):
            raise self._refusal(
                "sasl.login.callback.handler.class",
                "is a class of Java's, which cannot be called here: a token comes from "
                "sasl.oauthbearer.token.endpoint.url",
            )
        extensions = [
            (name.removeprefix(_EXTENSION), value)
            for name, value in in_jaas.items()
            if name.startswith(_EXTENSION)
        ]
        for pair in (self._text("sasl.oauthbearer.extensions") or "").split(","):
            name, equals, value = pair.partition("=")
            if equals:
                extensions.append((name.strip(), value.strip()))
            elif pair.strip():
                raise self._refusal(
                    "sasl.oauthbearer.extensions", f"has {pair!r}, which is not NAME=VALUE"
                )
        return Sasl(OAUTHBEARER, token=self._token(in_jaas), extensions=tuple(extensions))

    def _token(self, in_jaas: Mapping[str, str]) -> TokenSource:
        name = "sasl.oauthbearer.token.endpoint.url"
        url = self._text(name)
        if url is None:
            raise self._refusal(name, "is missing: a token has to come from somewhere")
        parts = urlsplit(url)
        if parts.scheme == "file" and parts.path:
            return Path(unquote(parts.path))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._refusal(name, "is no address: it begins with https:// or file:///")
        client_id = in_jaas.get("clientId") or self._text(f"{_CREDENTIALS}.id")
        secret = in_jaas.get("clientSecret") or self._text(f"{_CREDENTIALS}.secret")
        if client_id is None or secret is None:
            missing = "id" if client_id is None else "secret"
            raise self._refusal(
                f"{_CREDENTIALS}.{missing}",
                "is missing: the provider gives a token for an id and a secret",
            )
        scope = in_jaas.get("scope") or self._text("sasl.oauthbearer.scope")
        return ClientCredentials(url, client_id, secret, scope, self._text("https.ca.location"))


def check_holds_no_secret(name: str, value: str) -> None:
    """Arguments of a command are seen by everyone on the machine."""
    if name in SECRETS and value and not is_reference(value):
        raise ConfigError(
            f"{name} is a secret, which arguments would show to everyone on this machine: give it "
            f"as '{name}=${{env:NAME}}' or '{name}=${{file:PATH}}', or in a profile"
        )


def _parse_jaas(text: str) -> dict[str, str]:
    found = {}
    for name, *values in _IN_JAAS.findall(text):
        found[name] = re.sub(r"\\(.)", r"\1", "".join(values))
    return found
