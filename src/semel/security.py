"""How a connection is secured: whom the client trusts, and as whom it signs in.

>>> Security(tls=Tls(trusted="ca.pem"), sasl=Sasl("SCRAM-SHA-512", "ana", password))
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from semel.errors import ConfigError
from semel.keystores import FileState, UnreadableStore, as_pem, load_own, state_of

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


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Made once, and anew when a file is another one: a certificate may be renewed while a client
    lives. What cannot be read then leaves the one before. Raises ConfigError."""
    files = (None if _is_text(tls.trusted) else tls.trusted, tls.certificate_file, tls.key_file)
    state = tuple(map(state_of, files))
    known = _CONTEXTS.get(tls)
    if known is not None and known[0] == state:
        return known[1]
    try:
        context = _made(tls)
    except ConfigError:
        if known is None:
            raise
        # Perhaps it is being written: the next connection looks again.
        return known[1]
    _CONTEXTS[tls] = (state, context)
    return context


_CONTEXTS: Final[dict[Tls, tuple[tuple[FileState, ...], ssl.SSLContext]]] = {}
"""With what the files were when they were read."""


def _is_text(trusted: str | None) -> bool:
    return trusted is not None and _BEGIN_OF_PEM in trusted


def _made(tls: Tls) -> ssl.SSLContext:
    file, text = (None, tls.trusted) if _is_text(tls.trusted) else (tls.trusted, None)
    if file is not None:
        with _reading(file):
            store = as_pem(Path(file).read_bytes(), tls.trusted_password)
        if store is not None:
            file, text = None, store.certificates
    with _reading(file):
        context = ssl.create_default_context(cafile=file, cadata=text)
    if tls.certificate_file is not None:
        with _reading(tls.certificate_file, tls.key_file):
            load_own(
                context,
                tls.certificate_file,
                tls.key_file,
                tls.key_password,
                tls.certificate_password,
            )
    context.check_hostname = tls.checks_host
    return context


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
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"certificates cannot be read from {names}: {reason}") from None
