"""Whatever comes before a sign-in: nothing raises, nobody comes in, nothing is left behind."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from support.knocking import knocks
from support.seeded_loop import run

KNOCKS = 1_500


@pytest.mark.parametrize("seed", [1, 2])
def test_broken_sign_ins_let_nobody_in_and_leave_nothing_behind(tmp_path: Path, seed: int) -> None:
    errors = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: errors.append(told))
        async with knocks(tmp_path, seed) as knocking:
            await knocking.run(KNOCKS)
            # They were of all kinds: some came as far as one can come.
            assert knocking.good_count > KNOCKS // 50
            assert knocking.refused_count > KNOCKS // 50

    run(Random(seed), main())
    assert errors == []
