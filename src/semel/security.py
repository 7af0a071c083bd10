"""How a connection is secured: whom the client trusts, and as whom it signs in.

>>> Security(tls=Tls(trusted="ca.pem"), sasl=Sasl("SCRAM-SHA-512", "ana", password))
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from semel.errors import ConfigError


class Tls(NamedTuple):
    """Certificates are PEM, as files or as the text itself."""

    trusted: str | None = None
    """Who may have signed the broker's certificate; None: whom this machine trusts."""
    certificate_file: str | None = None
    """The client's own, for brokers that ask for one."""
    key_file: str | None = None
    key_password: str | None = None
    checks_host: bool = True

    def __repr__(self) -> str:
        """Without the password: settings are printed in errors."""
        return f"Tls({self.trusted!r}, {self.certificate_file!r}, {self.key_file!r})"


class ClientCredentials(NamedTuple):
    """What an OpenID provider gives tokens for: OAuth 2.0's grant of this name."""

    token_endpoint: str
    client_id: str
    client_secret: str
    scope: str | None = None
    trusted: str | None = None
    """Who may have signed the endpoint's certificate; None: whom this machine trusts."""

    def __repr__(self) -> str:
        return f"ClientCredentials({self.token_endpoint!r}, {self.client_id!r})"


TokenSource = Callable[[], str] | ClientCredentials | Path
"""A function is called in a thread at each sign-in; a file is read at each."""


class Sasl(NamedTuple):
    mechanism: str
    username: str = ""
    password: str = ""
    token: TokenSource | None = None
    """For OAUTHBEARER, which has neither a name nor a password."""
    extensions: tuple[tuple[str, str], ...] = ()
    """What else the broker is told with a token."""

    def __repr__(self) -> str:
        if self.token is not None:
            return f"Sasl({self.mechanism!r}, token={self.token!r})"
        return f"Sasl({self.mechanism!r}, {self.username!r})"


class Security(NamedTuple):
    tls: Tls | None = None
    sasl: Sasl | None = None


PLAINTEXT = Security()

SecurityLike = Security | Mapping[str, str]
"""The same by the names that Kafka's clients have, such as `sasl.mechanism`."""


@cache
def tls_context(tls: Tls) -> ssl.SSLContext:
    is_text = tls.trusted is not None and "-----BEGIN" in tls.trusted
    trusted_file = None if is_text else tls.trusted
    with _reading(trusted_file):
        context = ssl.create_default_context(
            cafile=trusted_file, cadata=tls.trusted if is_text else None
        )
    if tls.certificate_file is not None:
        with _reading(tls.certificate_file, tls.key_file):
            # Without one OpenSSL would ask whoever sits at the terminal.
            password = tls.key_password or ""
            context.load_cert_chain(tls.certificate_file, tls.key_file, password)
    context.check_hostname = tls.checks_host
    return context


@contextmanager
def _reading(*files: str | None) -> Iterator[None]:
    """OpenSSL says what is wrong, and not with which file."""
    try:
        yield
    except (OSError, ssl.SSLError) as error:
        names = " and ".join(file for file in files if file is not None) or "a text"
        raise ConfigError(
            f"certificates cannot be read from {names} ({error}): "
            "they have to be PEM, so export a Java keystore"
        ) from None
