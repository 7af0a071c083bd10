"""How a connection is secured: whom the client trusts, and as whom it signs in."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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


class Sasl(NamedTuple):
    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        """Without the password: settings are printed in errors."""
        return f"Sasl({self.mechanism!r}, {self.username!r})"


class Security(NamedTuple):
    tls: Tls | None = None
    sasl: Sasl | None = None


PLAINTEXT = Security()


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
            context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password)
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
