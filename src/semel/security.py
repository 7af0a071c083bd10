"""How a connection is secured: whom the client trusts, and as whom it signs in.

>>> Security(tls=Tls(trusted="ca.pem"), sasl=Sasl("SCRAM-SHA-512", "ana", password))
"""

import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from semel.errors import ConfigError
from semel.keystores import UnreadableStore, as_pem

_BEGIN_OF_PEM = "-----BEGIN"


class Tls(NamedTuple):
    """Certificates are PEM, as files or as the text itself, or in a store of Java's."""

    trusted: str | None = None
    """Who may have signed the broker's certificate; None: whom this machine trusts."""
    certificate_file: str | None = None
    """The client's own, for brokers that ask for one."""
    key_file: str | None = None
    key_password: str | None = None
    checks_host: bool = True
    trusted_password: str | None = None
    """Of a store."""
    certificate_password: str | None = None

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
    trusted = tls.trusted
    is_text = trusted is not None and _BEGIN_OF_PEM in trusted
    if trusted is not None and not is_text:
        with _reading(trusted):
            store = as_pem(Path(trusted).read_bytes(), tls.trusted_password)
        if store is not None:
            trusted, is_text = store.certificates, True
    with _reading(None if is_text else trusted):
        context = ssl.create_default_context(
            cafile=None if is_text else trusted, cadata=trusted if is_text else None
        )
    if tls.certificate_file is not None:
        with _reading(tls.certificate_file, tls.key_file):
            _load_certificate(context, tls, tls.certificate_file)
    context.check_hostname = tls.checks_host
    return context


def _load_certificate(context: ssl.SSLContext, tls: Tls, certificate_file: str) -> None:
    content = Path(certificate_file).read_bytes()
    store = as_pem(content, tls.certificate_password, tls.key_password)
    if store is None:
        # Without a password OpenSSL would ask whoever sits at the terminal.
        context.load_cert_chain(certificate_file, tls.key_file, tls.key_password or "")
        return
    if store.key is None:
        raise UnreadableStore("it has no private key, so it says of nobody who they are")
    # OpenSSL takes it from a file alone; nobody else may read this one, which is gone at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(store.text)
        file.flush()
        context.load_cert_chain(file.name)


@contextmanager
def _reading(*files: str | None) -> Iterator[None]:
    """OpenSSL says what is wrong, and not with which file."""
    names = " and ".join(file for file in files if file is not None) or "a text"
    try:
        yield
    except UnreadableStore as error:
        raise ConfigError(f"certificates cannot be read from {names}: {error}") from None
    except ssl.SSLError as error:
        raise ConfigError(
            f"certificates cannot be read from {names} ({error}): "
            f"they have to be PEM, or a JKS or PKCS12 store"
        ) from None
    except OSError as error:
        raise ConfigError(f"certificates cannot be read from {names} ({error})") from None
