"""Tokens of functions, files and OpenID providers; a provider is a small HTTP server here."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

import pytest

from semel.client.connecting.tokens import forget_token, token_of
from semel.errors import ConfigError, NetworkException, SaslAuthenticationFailed
from semel.security import ClientCredentials, TokenSource
from support.secured_server import CERTIFICATE

SECRET = "tulip"


class Asked(NamedTuple):
    authorization: str
    form: dict[str, list[str]]


Answer = tuple[int, dict[str, object] | bytes]


class Provider:
    """Answers each request with the next of its answers, and the last of them from then on."""

    def __init__(self, url: str, answers: list[Answer]) -> None:
        self.url = url
        self.answers = answers
        self.asked: list[Asked] = []

    def credentials(self, **options: str) -> ClientCredentials:
        return ClientCredentials(self.url, "me", SECRET, **options)


@contextmanager
def provider(*answers: Answer, has_tls: bool = False) -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            one.asked.append(Asked(self.headers["Authorization"], parse_qs(form)))
            status, content = one.answers.pop(0) if len(one.answers) > 1 else one.answers[0]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", one.url + "/elsewhere")
            self.end_headers()
            self.wfile.write(
                content if isinstance(content, bytes) else json.dumps(content).encode()
            )

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if has_tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("key.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if has_tls else "http"
    one = Provider(f"{scheme}://127.0.0.1:{server.server_address[1]}/token", list(answers))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def token(source: TokenSource) -> str:
    return asyncio.run(token_of(source))


def grant(text: str, **others: object) -> Answer:
    return 200, {"access_token": text, "token_type": "Bearer", **others}


def test_a_provider_is_asked_as_oauth_2_says() -> None:
    with provider(grant("a.b.c")) as one:
        assert token(one.credentials(scope="kafka")) == "a.b.c"
    (asked,) = one.asked
    assert base64.b64decode(asked.authorization.removeprefix("Basic ")) == b"me:tulip"
    assert asked.form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_a_token_serves_until_most_of_its_life_is_over() -> None:
    with provider(grant("a", expires_in=3600), grant("b", expires_in=3600)) as one:
        assert [token(one.credentials()) for _ in range(3)] == ["a", "a", "a"]
        forget_token(one.credentials())
        assert token(one.credentials()) == "b"
    assert len(one.asked) == 2


def test_a_token_without_a_known_end_is_asked_for_each_time() -> None:
    with provider(grant("a"), grant("b")) as one:
        assert [token(one.credentials()) for _ in range(2)] == ["a", "b"]


def test_the_end_of_a_token_is_read_from_the_token_itself() -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 32_503_680_000}).encode()).decode()
    lasting = f"head.{claims.rstrip('=')}.signature"
    with provider(grant(lasting), grant("b")) as one:
        assert [token(one.credentials()) for _ in range(2)] == [lasting, lasting]


def test_connections_that_need_a_token_at_once_ask_once() -> None:
    async def several(credentials: ClientCredentials) -> list[str]:
        return await asyncio.gather(*(token_of(credentials) for _ in range(8)))

    with provider(grant("a", expires_in=60), grant("b")) as one:
        assert asyncio.run(several(one.credentials())) == ["a"] * 8


def test_a_provider_that_refuses_is_quoted_and_the_secret_is_not() -> None:
    reason: dict[str, object] = {"error": "invalid_client", "error_description": "who are you"}
    with provider((401, reason)) as one, pytest.raises(SaslAuthenticationFailed) as raised:
        token(one.credentials())
    assert f"{one.url} gives no token: status 401: invalid_client: who are you" in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((503, b""), NetworkException, "status 503"),
        ((302, b""), SaslAuthenticationFailed, "status 302"),
        ((200, b"<html>"), SaslAuthenticationFailed, "not JSON"),
        ((200, {"no": "token"}), ConfigError, "is text, and not of type NoneType"),
        ((200, {"access_token": "a b\x01"}), ConfigError, "characters that no token has"),
    ],
)
def test_what_is_no_token_is_told(answer: Answer, error: type[Exception], words: str) -> None:
    with provider(answer) as one, pytest.raises(error, match=words):
        token(one.credentials())
    assert len(one.asked) == 1, "a redirection is not followed: the secret would go along"


def test_a_provider_that_is_away_may_be_asked_again() -> None:
    with provider(grant("a")) as one:
        pass
    with pytest.raises(NetworkException, match="cannot be asked for a token"):
        token(one.credentials())


def test_whom_to_trust_as_a_provider_can_be_said() -> None:
    with provider(grant("a"), has_tls=True) as one:
        with pytest.raises(SaslAuthenticationFailed, match=r"https\.ca\.location names who"):
            token(one.credentials())
        assert token(one.credentials(trusted=str(CERTIFICATE))) == "a"


def test_a_token_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("a.b.c\n")
    assert token(file) == "a.b.c"
    file.write_text("d.e.f")
    assert token(file) == "d.e.f"
    with pytest.raises(ConfigError, match="missing: no such file"):
        token(tmp_path / "missing")


def failing() -> str:
    raise LookupError("the vault is shut")


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (failing, SaslAuthenticationFailed, "LookupError: the vault is shut"),
        (lambda: b"bytes", ConfigError, "not of type bytes"),
        (lambda: "", ConfigError, "is empty"),
    ],
)
def test_a_function_that_gives_no_token_is_told(
    function: Callable[[], str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        token(function)
