"""The certificate of a listener, and of whom it takes others: read anew when the files change.

Law: connections that are open keep what they began with; what cannot be read leaves what was read
before, and is named.
"""

import ssl
from pathlib import Path
from typing import Final

from semel.broker import log
from semel.broker.alerts import AlertingContext
from semel.broker.config import BrokerConfig
from semel.broker.listeners import Listener
from semel.errors import ConfigError
from semel.keystores import FileState, UnreadableStore, load_own, load_trusted, state_of

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENTS: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class Certificates:
    """Of one listener."""

    def __init__(self, listener: Listener) -> None:
        """Raises ConfigError."""
        self._name = listener.name
        self._config = listener.config
        self._seen = _state_of(self._config)
        self.context = server_context(self._config)
        """For the connections that come now. Always another one: one that is changed in its place
        may keep a certificate that its key does not belong to."""
        self.for_nodes = client_context(self._config) if listener.is_for_nodes else None
        """For calls to the same listener of other nodes."""

    def look(self, *, was_asked: bool = False) -> None:
        """Read them if they have changed, or somebody asks for it."""
        found = _state_of(self._config)
        if found == self._seen and not was_asked:
            return
        self._seen = found
        try:
            context = server_context(self._config)
            if self.for_nodes is not None:
                self.for_nodes = client_context(self._config)
        except ConfigError as error:
            log.error(
                "a certificate cannot be used, so the one before it still is",
                listener=self._name,
                reason=str(error),
            )
            return
        self.context = context
        log.info("certificates were read anew", listener=self._name)


def server_context(config: BrokerConfig) -> ssl.SSLContext:
    """Raises ConfigError."""
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, config.ssl_enabled_protocols)
    _load_own(context, config)
    if config.ssl_client_auth != "none":
        _load_trusted(context, config)
    context.verify_mode = _CLIENTS[config.ssl_client_auth]
    return context


def client_context(config: BrokerConfig) -> ssl.SSLContext:
    """For a node that calls another. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, config.ssl_enabled_protocols)
    _load_own(context, config)
    if config.ssl_truststore_location:
        _load_trusted(context, config)
    else:
        context.load_default_certs()
    context.check_hostname = config.ssl_endpoint_identification_algorithm.lower() == "https"
    return context


def _limit(context: ssl.SSLContext, versions: str) -> None:
    named = [each.strip() for each in versions.split(",") if each.strip()]
    if not named or not all(each in _VERSIONS for each in named):
        raise ConfigError(f"ssl.enabled.protocols={versions!r}: must be of {', '.join(_VERSIONS)}")
    context.minimum_version = min(_VERSIONS[each] for each in named)
    context.maximum_version = max(_VERSIONS[each] for each in named)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


def _load_own(context: ssl.SSLContext, config: BrokerConfig) -> None:
    certificate, key = config.ssl_keystore_location, config.ssl_key_location or None
    passwords = config.ssl_key_password or None, config.ssl_keystore_password or None
    try:
        load_own(context, certificate, key, *passwords)
    except (OSError, ValueError, UnreadableStore) as error:
        files = certificate if key is None else f"{certificate} and {key}"
        raise _refusal(files, [certificate, key or certificate], error) from None


def _load_trusted(context: ssl.SSLContext, config: BrokerConfig) -> None:
    file = config.ssl_truststore_location
    try:
        load_trusted(context, file, config.ssl_truststore_password or None)
    except (OSError, ValueError, UnreadableStore) as error:
        raise _refusal(file, [file], error) from None


def _refusal(named: str, files: list[str], error: Exception) -> ConfigError:
    """OpenSSL says what is wrong, and not with which file."""
    if isinstance(error, FileNotFoundError):
        missing = [each for each in files if not Path(each).exists()]
        return ConfigError(f"{' and '.join(dict.fromkeys(missing))}: there is no such file")
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    if reason == "KEY_VALUES_MISMATCH":
        reason = "the key is not that of the certificate"
    elif reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ"):
        reason = "ssl.key.password is not what the key is encrypted with"
    elif "PEM lib" in reason:
        reason = _lacking(files)
    return ConfigError(f"certificates cannot be read from {named}: {reason}")


def _lacking(files: list[str]) -> str:
    """What OpenSSL calls an error of its library: what it looked for is not in the file."""
    certificate, key = files[0], files[-1]
    for file, wanted in ((certificate, "CERTIFICATE"), (key, "PRIVATE KEY")):
        if f"{wanted}-----".encode() not in Path(file).read_bytes():
            return f"there is no -----BEGIN {wanted}----- in {file}"
    return "what stands there is no certificate and key in PEM"


def _state_of(config: BrokerConfig) -> tuple[FileState, ...]:
    """A value that is another one as soon as one of the files is."""
    files = config.ssl_keystore_location, config.ssl_key_location, config.ssl_truststore_location
    return tuple(map(state_of, files))
