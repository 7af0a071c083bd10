"""Where the keys are found that tokens are signed with: a file, or an address of the provider.

Law: nobody on the way can give us keys. They come over TLS, or from this machine, and stay there
wherever the provider sends us on.
"""

import ssl
import urllib.error
import urllib.request
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote, urlsplit

from semel.errors import ConfigError
from semel.spelling import shown_url

TIMEOUT_S: Final = 10.0
SIZE_MAX: Final = 1 << 20
_THIS_MACHINE: Final = ("127.0.0.1", "::1", "localhost")


class KeyEndpoint:
    def __init__(self, url: str, trusted: str) -> None:
        """`trusted` is a file of those who may have signed the provider's certificate; empty: those
        of the system. Raises ConfigError."""
        self._url = url
        self._file = _file_of(url)
        self._context = _context(trusted) if url.startswith("https:") else None

    def __str__(self) -> str:
        return shown_url(self._url)

    def fetched(self) -> bytes:
        """Blocking. Raises OSError, HTTPException, ValueError."""
        if self._file is not None:
            with self._file.open("rb") as opened:
                return opened.read(SIZE_MAX)
        handlers: list[urllib.request.BaseHandler] = [_StaysSafe()]
        if self._context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=self._context))
        opener = urllib.request.build_opener(*handlers)
        with opener.open(self._url, timeout=TIMEOUT_S) as reply:
            return reply.read(SIZE_MAX)  # type: ignore[no-any-return]


class _StaysSafe(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not _is_safe(newurl):
            raise urllib.error.URLError(f"it leads to {shown_url(newurl)}, which is no https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def _file_of(url: str) -> Path | None:
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        return Path(unquote(parts.path))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            "sasl.oauthbearer.jwks.endpoint.url is no address: it begins with https:// or file:///"
        )
    if not _is_safe(url):
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url={shown_url(url)}: whoever stands on the way could "
            "give out keys of their own; it has to be https://"
        )
    return None


def _context(trusted: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=trusted or None)
    except OSError as error:
        raise ConfigError(f"https.ca.location: {trusted}: {error}") from None
