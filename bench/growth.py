"""`python -m bench.growth`: what a step of the lane takes when there is much of something.

Not a figure with a limit: a look at which steps still grow, to be run before and after a change.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Callable

from semel.groups.commands import NO_MEMBER_ID, CommitOffsets, OffsetToCommit
from semel.groups.settings import GroupSettings
from semel.journal.in_memory import MemoryJournal, Shelf
from semel.lane import snapshot
from semel.lane.commands import LaneSettings
from semel.lane.group_commands import AskGroups
from semel.lane.lane import Lane
from semel.lane.topics import CreateTopic, DeleteTopic, GrowTopic, HostPartitions
from semel.lane.transactions import Transact
from semel.transactions.commands import AddPartitions, Command, End, InitProducer
from semel.transactions.dialect import Dialect
from semel.types import GroupId, TopicPartition, TransactionalId
from semel.world import SystemClock, SystemRandomness

MANY = 100_000
LITTLE = 10
OFFSETS_PER_GROUP = 10
JOINED = (1, 100, 1_000, 10_000)


async def main() -> None:
    for partition_count in (LITTLE, MANY):
        await _topics(partition_count)
        _forget()
    for group_count in (LITTLE, MANY // OFFSETS_PER_GROUP):
        await _deletion_beside_groups(group_count)
        _forget()
    for join_count in JOINED:
        await _joins(join_count)
        _forget()


def _forget() -> None:
    """What one measure leaves behind must not be collected in the next."""
    gc.collect()
    gc.freeze()


async def _topics(partition_count: int) -> None:
    lane, _, shelf = await _started()
    say = f"{partition_count:,} partitions"
    _print(
        f"create a topic of {say}", _ms(lambda: lane.submit(CreateTopic("t", partition_count, {})))
    )
    lane.submit(CreateTopic("grown", 1, {}))
    _print(f"add {say}", _ms(lambda: lane.submit(GrowTopic("grown", partition_count))))
    indexes = range(1, partition_count, 2)
    hosting = HostPartitions("hosted", b"i" * 16, tuple(indexes), partition_count)
    _print(f"host every other of {say}", _ms(lambda: lane.submit(hosting)))
    _print("  the same again", _ms(lambda: lane.submit(hosting)))
    began = time.perf_counter()
    pieces = snapshot.take(lane._state)  # noqa: SLF001 - as the journal does.
    mark_ms = (time.perf_counter() - began) * 1000
    piece_ms = []
    while True:
        began = time.perf_counter()
        piece = next(pieces, None)
        piece_ms.append((time.perf_counter() - began) * 1000)
        if piece is None:
            break
    _print("mark of a checkpoint", mark_ms)
    _print(f"  longest of its {len(piece_ms)} pieces", max(piece_ms))
    _print("  all of them", sum(piece_ms))
    await lane.close()
    began = time.perf_counter()
    lane, _, _ = await _started(shelf)
    _print("start from the checkpoint", (time.perf_counter() - began) * 1000)
    _print(f"delete a topic of {say}", _ms(lambda: lane.submit(DeleteTopic("t"))))


async def _deletion_beside_groups(group_count: int) -> None:
    lane, _, _ = await _started()
    lane.submit(CreateTopic("kept", OFFSETS_PER_GROUP, {}))
    lane.submit(CreateTopic("gone", 1, {}))
    for number in range(group_count):
        offsets = tuple(
            OffsetToCommit("kept", index, number, -1, "") for index in range(OFFSETS_PER_GROUP)
        )
        lane.submit(
            AskGroups(CommitOffsets(GroupId(f"g{number}"), -1, NO_MEMBER_ID, None, offsets))
        )
        if number % 1000 == 0:
            await asyncio.sleep(0)
    say = f"{group_count * OFFSETS_PER_GROUP:,} offsets of another"
    _print(f"delete a topic beside {say}", _ms(lambda: lane.submit(DeleteTopic("gone"))))


async def _joins(join_count: int) -> None:
    lane, journal, _ = await _started()
    lane.submit(CreateTopic("t", join_count, {}))
    name = TransactionalId("tx")

    def transact(command: Command) -> None:
        lane.submit(Transact(name, command))

    transact(InitProducer(name, 60_000))
    value = lane.view.transaction(name)
    assert value is not None
    producer = value.producer_id, value.producer_epoch
    before = journal.bytes_appended
    times_ms = []
    for index in range(join_count):
        joining = AddPartitions(*producer, frozenset({TopicPartition("t", index)}))
        times_ms.append(_ms(lambda joining=joining: transact(joining)))  # type: ignore[misc]
        if index % 100 == 0:
            await asyncio.sleep(0)
    written = journal.bytes_appended - before
    _print(f"join {join_count:,} partitions one by one: all", sum(times_ms))
    _print("  median of the last 100", statistics.median(times_ms[-100:]))
    print(f"{'  bytes appended':58}{written:>14,}")
    _print("  the end", _ms(lambda: transact(End(*producer, True, Dialect.TV1))))


async def _started(shelf: Shelf | None = None) -> tuple[Lane, MemoryJournal, Shelf]:
    shelf = shelf or Shelf()
    journal = MemoryJournal(shelf)
    lane = Lane(journal, LaneSettings(GroupSettings()), SystemClock(), SystemRandomness())
    await lane.start(_fail)
    return lane, journal, shelf


def _fail(error: BaseException) -> None:
    raise error


def _ms(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000


def _print(what: str, took_ms: float) -> None:
    print(f"{what:58}{took_ms:14.3f} ms")


if __name__ == "__main__":
    asyncio.run(main())
