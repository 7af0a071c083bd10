"""A lane on the simplest journal there is: it needs nothing but the seam."""

from random import Random

from semel.groups.settings import GroupSettings
from semel.journal.in_memory import MemoryJournal, Shelf
from semel.lane.commands import LaneSettings
from semel.lane.lane import Lane
from semel.lane.topics import CreateTopic
from support.handled import LoopClock, SeededRandomness
from support.lane_state import whole
from support.seeded_loop import run


def _fail(error: BaseException) -> None:
    raise error


async def _start(shelf: Shelf) -> Lane:
    settings = LaneSettings(GroupSettings())
    lane = Lane(MemoryJournal(shelf), settings, LoopClock(), SeededRandomness(Random(2)))
    await lane.start(_fail)
    return lane


def test_a_kill_keeps_the_term_and_a_power_loss_raises_it() -> None:
    async def live() -> None:
        shelf = Shelf()
        terms = []
        for end in (shelf.kill, shelf.kill, shelf.lose_power, shelf.kill):
            terms.append((await _start(shelf))._state.term)
            end()
        terms.append((await _start(shelf))._state.term)
        assert terms == [0, 0, 0, 1, 1]

    run(Random(1), live())


def test_what_one_process_had_the_next_recovers_from_frames_and_from_a_checkpoint() -> None:
    async def live() -> None:
        shelf = Shelf()
        for number in range(4):
            lane = await _start(shelf)
            lane.submit(CreateTopic(f"t{number}", 2, {}))
            await lane.until_durable()
            left = whole(lane._state)
            if number % 2:
                await lane.close()
            else:
                shelf.kill()
            again = await _start(shelf)
            assert whole(again._state) == left
            assert len(again._state.partition_counts) == number + 1
            shelf.kill()

    run(Random(1), live())
