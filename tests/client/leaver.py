"""Work without end, which takes some ticks of the loop to leave, as a commit does."""

import asyncio

_TURNS = 100


class Leaver:
    def __init__(self) -> None:
        self.has_left = False

    async def work(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self.has_left = True
