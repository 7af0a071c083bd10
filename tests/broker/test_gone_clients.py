"""A client that is gone leaves nothing behind that waits for it."""

import asyncio
from dataclasses import replace
from random import Random

from semel.journal.memory import MemoryDevice
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from support import handled
from support.handled import opened, started
from support.raw_client import encoded, request_frame

CONFIG = replace(handled.CONFIG, group_initial_rebalance_delay_ms=60_000)
TICKS = 10


class SilentTransport(asyncio.Transport):
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_member_whose_connection_is_lost_in_the_tick_of_its_request_does_not_wait() -> None:
    join = JoinGroupRequest(
        "g", 60_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    frame = request_frame("join_group", 3, encoded("join_group", 3, join))

    async def main() -> None:
        rng = Random(1)
        broker = opened(MemoryDevice(rng), rng, CONFIG)
        async with started(broker):
            connection = broker.connection()
            connection.connection_made(SilentTransport())
            connection.get_buffer(-1)[: len(frame)] = frame
            connection.buffer_updated(len(frame))
            assert broker.waiting_room.waiting_count == 1
            connection.connection_lost(None)
            for _ in range(TICKS):
                await asyncio.sleep(0)
            assert broker.waiting_room.waiting_count == 0

    asyncio.run(main())
