"""Pages over HTTP, to whoever asks well or badly."""

import asyncio
from http import HTTPStatus

import pytest

from semel.errors import ConfigError
from semel.status_server import (
    Page,
    Pages,
    health_page,
    json_page,
    parse_listen,
    served,
    text_page,
)

PAGES: Pages = {
    ("GET", "/healthz"): lambda body: health_page([]),
    ("GET", "/readyz"): lambda body: health_page(["joining", "no leader"]),
    ("POST", "/echo"): Page,
}


def asked(*requests: bytes) -> list[bytes]:
    async def work() -> list[bytes]:
        answers = []
        async with served("--metrics", "127.0.0.1:0", PAGES) as address:
            host, port = address.removeprefix("http://").split(":")
            for request in requests:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(request)
                answers.append(await reader.read())
                writer.close()
        return answers

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("request_head", "status", "body"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"200 OK", b"ok\n"),
        (b"HEAD /healthz HTTP/1.1\r\n\r\n", b"200 OK", b""),
        (b"GET /readyz?now HTTP/1.0\r\n\r\n", b"503 Service Unavailable", b"joining\nno leader\n"),
        (b"POST /echo HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", b"200 OK", b"abc"),
        (
            b"POST /healthz HTTP/1.1\r\n\r\n",
            b"405 Method Not Allowed",
            b"/healthz is not for POST\n",
        ),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found", b"there are /echo, /healthz, /readyz\n"),
        (b"\r\n\r\n", b"404 Not Found", b"there are /echo, /healthz, /readyz\n"),
        (
            b"POST /echo HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            b"413 Request Entity Too Large",
            b"the request is too long\n",
        ),
        (
            b"GET /" + b"x" * 20_000 + b"\r\n\r\n",
            b"431 Request Header Fields Too Large",
            b"the request is too long\n",
        ),
    ],
    ids=lambda each: each[:12].decode(errors="replace") if isinstance(each, bytes) else None,
)
def test_each_request_has_its_answer(request_head: bytes, status: bytes, body: bytes) -> None:
    (answer,) = asked(request_head)
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] in (b"HTTP/1.1 " + status, b"HTTP/1.1 413 Content Too Large")
    assert content == body


def test_pages_say_what_they_are() -> None:
    assert text_page("a") == Page(b"a\n")
    assert json_page([1]) == Page(b"[1]\n", "application/json", HTTPStatus.OK)
    assert health_page(["x"]).status is HTTPStatus.SERVICE_UNAVAILABLE


def test_an_address_that_cannot_be_is_refused() -> None:
    assert parse_listen("--metrics", "[::1]:0") == ("::1", 0)
    for text in ("9100", "host:", "host:port", ":1", "host:70000"):
        with pytest.raises(ConfigError, match=r"--metrics is .*give it as HOST:PORT"):
            parse_listen("--metrics", text)


def test_a_port_that_is_taken_is_named() -> None:
    async def work() -> None:
        async with served("--metrics", "127.0.0.1:0", PAGES) as address:
            taken = address.removeprefix("http://")
            async with served("--metrics", taken, PAGES):
                pass

    with pytest.raises(ConfigError, match=r"^--metrics 127.0.0.1:\d+: address already in use$"):
        asyncio.run(work())
