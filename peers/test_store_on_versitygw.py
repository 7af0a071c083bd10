"""The suite of stores on versitygw, which is not ours and speaks S3."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import TypeVar

import pytest
from peers.versitygw import BUCKET, KEY, Versitygw

from semel.store.opening import bare_store
from semel.store.probe import probe
from semel.store.seam import Store
from semel.store.settings import StoreSettings
from semel.world import SystemRandomness
from store.test_conformance import *  # noqa: F403
from support.stores import Test

T = TypeVar("T")


class Gateway:
    """Both a place and a home: of each test, a path of its own."""

    def __init__(self, server: Versitygw, path: str) -> None:
        self._settings = StoreSettings(
            f"s3://{BUCKET}/{path}", endpoint=server.endpoint, options=KEY
        )

    def connect(self) -> Store:
        return bare_store(self._settings)

    def worsen(self) -> None: ...

    def heal(self) -> None: ...

    def run(self, test: Test[T]) -> T:
        return asyncio.run(test(self))


@pytest.fixture(scope="module")
def server() -> Iterator[Versitygw]:
    with Versitygw() as running:
        yield running


NAMES = itertools.count()


@pytest.fixture  # type: ignore[no-redef]  # Instead of the suite's.
def place(server: Versitygw) -> Gateway:
    return Gateway(server, f"path-{next(NAMES)}")


def test_it_can_be_trusted_with_an_election(place: Gateway) -> None:
    async def scenario(home: object) -> None:
        for _ in range(10):
            await probe(place.connect(), SystemRandomness())

    place.run(scenario)
