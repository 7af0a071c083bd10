"""A channel to another node that is given up while it is opened leaves no connection behind."""

import asyncio
from random import Random

import pytest

from semel.cluster.channel import Channel, Ended, NodeAway, Received
from semel.verify.world.loop import SeededRandomness
from support import seeded_loop

PATIENCE_S = 1.0


class SilentEnd:
    """It connects, and answers nothing."""

    def __init__(self) -> None:
        self.is_closed = False

    async def connect(self, host: str, port: int, received: Received, ended: Ended) -> "SilentEnd":
        return self

    def write(self, data: bytes, /) -> None:
        pass

    @property
    def may_place(self) -> bool:
        return False

    def place(self, data: bytes, /) -> bool:
        raise AssertionError("nothing may be placed here")

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["by who asked", "in time"])
def test_a_connection_that_is_given_up_is_closed(is_cancelled: bool) -> None:
    async def scenario() -> None:
        end = SilentEnd()
        opening = asyncio.ensure_future(
            Channel.open(end.connect, "host", 9092, b"key", SeededRandomness("1"), PATIENCE_S)
        )
        await asyncio.sleep(PATIENCE_S / 2)
        assert not end.is_closed
        if is_cancelled:
            opening.cancel()
        with pytest.raises((NodeAway, asyncio.CancelledError)):
            await opening
        assert end.is_closed

    seeded_loop.run(Random(1), scenario())
