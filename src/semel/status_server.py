"""A few pages over HTTP: metrics for Prometheus, health for whoever restarts what is ill.

Small on purpose: one request a connection, bounded in size and time, on the loop of whom it tells.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from semel.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

_HEAD_SIZE_MAX = 16 * 1024
_BODY_SIZE_MAX = 64 * 1024
_PATIENCE_S = 10.0
_PORT_MAX = 65_535


class Page(NamedTuple):
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[tuple[str, str], Callable[[bytes], Page]]
"""By method and path; called with the body of the request."""


def text_page(text: str, status: HTTPStatus = HTTPStatus.OK) -> Page:
    return Page(f"{text}\n".encode(), status=status)


def json_page(value: object, status: HTTPStatus = HTTPStatus.OK) -> Page:
    return Page(json.dumps(value).encode() + b"\n", "application/json", status)


def health_page(troubles: "Iterable[str]") -> Page:
    """In order if there is none."""
    found = list(troubles)
    if found:
        return text_page("\n".join(found), HTTPStatus.SERVICE_UNAVAILABLE)
    return text_page("ok")


def metrics_page(metrics: "Iterable[Metric]") -> Page:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Collected(Collector):
        def collect(self) -> "Iterable[Metric]":
            return metrics

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    return Page(generate_latest(registry), CONTENT_TYPE_LATEST)


def parse_listen(option: str, text: str) -> tuple[str, int]:
    """HOST:PORT, where port 0 picks a free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ConfigError(f"{option} is {text!r}: give it as HOST:PORT, such as 127.0.0.1:9100")
    return host.removeprefix("[").removesuffix("]"), int(port)


@asynccontextmanager
async def served(option: str, text: str, pages: Pages) -> AsyncIterator[str]:
    """The pages at HOST:PORT for the length of the block; gives their address."""
    host, port = parse_listen(option, text)
    try:
        server = await asyncio.start_server(_answering(pages), host, port, limit=_HEAD_SIZE_MAX)
    except OSError as error:
        reason = (error.strerror or str(error)).rpartition(": ")[2].lower()
        raise ConfigError(f"{option} {text}: {reason}") from None
    async with _closing(server):
        bound_host, bound_port = server.sockets[0].getsockname()[:2]
        shown = f"[{bound_host}]" if ":" in bound_host else bound_host
        yield f"http://{shown}:{bound_port}"


@asynccontextmanager
async def served_at_socket(path: Path, pages: Pages) -> AsyncIterator[None]:
    """The pages at a Unix socket, for those who may write to its folder."""
    server = await asyncio.start_unix_server(_answering(pages), path, limit=_HEAD_SIZE_MAX)
    async with _closing(server):
        yield


@asynccontextmanager
async def _closing(server: asyncio.Server) -> AsyncIterator[None]:
    try:
        yield
    finally:
        # Not waited for: a client that keeps its connection would keep the program.
        server.close()


def _answering(
    pages: Pages,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(TimeoutError, OSError, EOFError):
                async with asyncio.timeout(_PATIENCE_S):
                    page, is_head = await _page_for(reader, pages)
                    writer.write(_response(page, is_head=is_head))
                    await writer.drain()
        finally:
            writer.close()

    return answer


async def _page_for(reader: asyncio.StreamReader, pages: Pages) -> tuple[Page, bool]:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        return text_page(
            "the request is too long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        ), False
    request_line, *lines = head.split("\r\n")
    method, _, rest = request_line.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    size = headers.get("content-length", "0")
    if not size.isdecimal() or int(size) > _BODY_SIZE_MAX:
        return text_page("the request is too long", HTTPStatus.REQUEST_ENTITY_TOO_LARGE), False
    body = await reader.readexactly(int(size))
    is_head = method == "HEAD"
    found = pages.get(("GET" if is_head else method, path))
    if found is not None:
        return found(body), is_head
    known = {each for _, each in pages}
    if path in known:
        return text_page(f"{path} is not for {method}", HTTPStatus.METHOD_NOT_ALLOWED), is_head
    return text_page(f"there are {', '.join(sorted(known))}", HTTPStatus.NOT_FOUND), is_head


def _response(page: Page, *, is_head: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else page.body)
