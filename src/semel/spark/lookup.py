"""Questions of the driver to the cluster, asked again as often as the options say."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from semel.client.cluster.blocking import shared
from semel.client.cluster.cluster import Cluster
from semel.errors import RequestError
from semel.spark.source_settings import SourceSettings

_Answer = TypeVar("_Answer")


def look_up(settings: SourceSettings, find: Callable[[Cluster], Awaitable[_Answer]]) -> _Answer:
    connected = shared(settings.client)

    async def ask() -> _Answer:
        for _ in range(settings.lookup_retries):
            try:
                return await find(connected.cluster)
            except RequestError as error:
                if not error.retriable:
                    raise
            await asyncio.sleep(settings.lookup_pause_ms / 1000)
        return await find(connected.cluster)

    return connected.run(ask())
