"""A term that rises over more open transactions than one frame can abort, and a crash in that."""

import asyncio
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from semel.groups.settings import GroupSettings
from semel.journal.file import FileDevice
from semel.journal.journal import Journal
from semel.journal.settings import JournalSettings
from semel.lane.changes import create_topic, transactions_topic
from semel.lane.lane import Lane, LaneSettings
from semel.lane.transaction_steps import take_transaction_step
from semel.transactions.commands import InitProducer, WriteRecords
from semel.transactions.dialect import Dialect
from semel.types import TopicPartition, TransactionalId
from semel.world import SystemClock
from support.compiled import plain_python
from support.handled import SeededRandomness

OPEN_COUNT = 400


class _CrashedError(Exception):
    """The process ends here."""


def _fail(error: BaseException) -> None:
    raise error


async def _start(folder: Path) -> Lane:
    lane = _opened(folder)
    await lane.start(_fail)
    return lane


def _opened(folder: Path) -> Lane:
    journal = Journal.open(FileDevice(folder, synced=False), JournalSettings())
    return Lane(journal, LaneSettings(GroupSettings()), SystemClock(), SeededRandomness(Random(1)))


def _leave(lane: Lane) -> None:
    """As a killed process does: what it wrote is in the kernel, and nothing else is said."""
    lane.journal._device.stop()


async def _open_transactions(lane: Lane) -> None:
    transactions_topic(lane)
    create_topic(lane, "t", 1, {})
    for number in range(OPEN_COUNT):
        name = TransactionalId(f"id-{number}")
        given, _ = take_transaction_step(lane, name, InitProducer(name, 60_000), urgent=True)
        write = WriteRecords(
            given.producer_id,
            given.producer_epoch,
            frozenset({TopicPartition("t", 0)}),
            Dialect.TV2,
        )
        _, end = take_transaction_step(lane, name, write, urgent=True)
    await lane.durable(end)


@plain_python
@pytest.mark.parametrize("frames_left", [1, 2, 3])
def test_a_crash_between_its_frames_is_no_reason_to_forget_an_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames_left: int
) -> None:
    folder = tmp_path / "data"
    another = tmp_path / "another"

    async def live() -> None:
        lane = await _start(folder)
        term = lane.state.term
        await _open_transactions(lane)
        _leave(lane)
        shutil.copytree(folder, another)  # Another disk: nothing is certain.

        crashing = _opened(another)
        opening = Lane._open
        calls = 0

        def crash(self: Lane, *arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > frames_left:
                raise _CrashedError
            return opening(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Lane, "_open", crash)
            with pytest.raises(_CrashedError):
                await crashing.start(_fail)
        await crashing.durable(crashing.journal.end)
        left = len(crashing.state.transactions.open())
        assert 0 < left < OPEN_COUNT
        _leave(crashing)

        # The same disk as the one that crashed, but that one never came to say that it knew it.
        last = await _start(another)
        assert last.state.term == term + 2
        assert last.state.transactions.open() == ()
        assert last.state.topics["t"].partitions[0].log_end_offset == OPEN_COUNT
        await last.journal.close()

    asyncio.run(live())
