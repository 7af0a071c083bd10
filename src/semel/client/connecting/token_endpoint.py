"""A provider's endpoint for tokens, asked over HTTP.

Redirections are not followed, since the client's secret would be sent along.
"""

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from http.client import HTTPException, HTTPMessage
from typing import IO, Any

from semel.errors import NetworkException, SaslAuthenticationFailed
from semel.security import ClientCredentials, Tls, tls_context

_TIMEOUT_S = 10.0
_REPLY_SIZE_MAX = 1 << 20
_SHOWN_MAX = 200
_SERVER_ERRORS = 500


class _StaysHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """The redirection is an error then."""


def ask(credentials: ClientCredentials, endpoint: str) -> dict[str, Any]:
    fields = {"grant_type": "client_credentials"}
    if credentials.scope is not None:
        fields["scope"] = credentials.scope
    pair = f"{credentials.client_id}:{credentials.client_secret}".encode()
    request = urllib.request.Request(
        credentials.token_endpoint,
        data=urllib.parse.urlencode(fields).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
        },
    )
    handlers: list[urllib.request.BaseHandler] = [_StaysHere()]
    if credentials.token_endpoint.startswith("https:"):
        context = tls_context(Tls(credentials.trusted))
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as reply:
            text = reply.read(_REPLY_SIZE_MAX)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(endpoint, error) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise SaslAuthenticationFailed(
                f"the certificate of {endpoint} is not trusted: {reason.verify_message}; "
                "https.ca.location names who may have signed it"
            ) from None
        raise NetworkException(f"{endpoint} cannot be asked for a token: {reason}") from None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SaslAuthenticationFailed(f"{endpoint} gives no token: what it answers is not JSON")
    return found


def _refusal(endpoint: str, error: urllib.error.HTTPError) -> NetworkException | Exception:
    said = ""
    with suppress(OSError, ValueError, HTTPException):
        reply = json.loads(error.read(_REPLY_SIZE_MAX))
        if isinstance(reply, dict):
            parts = [reply.get("error"), reply.get("error_description")]
            said = "".join(f": {part}"[:_SHOWN_MAX] for part in parts if part)
    sentence = f"{endpoint} gives no token: status {error.code}{said}"
    is_passing = error.code >= _SERVER_ERRORS
    return NetworkException(sentence) if is_passing else SaslAuthenticationFailed(sentence)
