"""Who follows a lane hears that it is written by a newer version before it stumbles over that."""

from collections.abc import Iterator

import pytest

from semel.errors import CorruptJournal
from semel.groups.settings import GroupSettings
from semel.journal.index import BatchIndex
from semel.lane import facts
from semel.lane.commands import LaneSettings
from semel.lane.following import FollowedLane
from semel.lane.frame import Frame
from semel.types import Position
from semel.world import Moment

SETTINGS = LaneSettings(GroupSettings())


class TooNew(Exception):
    pass


def check(level: int) -> None:
    if level > 1:
        raise TooNew(f"level {level}")


def payload(*said: facts.AnyFact) -> bytes:
    frame = Frame(Moment(1_000, 1_000))
    for fact in said:
        frame.add_fact(fact)
    return b"".join(bytes(part) for part in frame.encode())


class Source:
    checkpoint = None
    caught_up_s = None

    def __init__(self, *payloads: bytes) -> None:
        self.index = BatchIndex(lambda *_: None)
        self._payloads = payloads

    def replay(self) -> Iterator[tuple[Position, memoryview]]:
        for number, each in enumerate(self._payloads):
            yield Position(1_000 * number), memoryview(each)


NAMED = payload(facts.Opened(0), facts.ClusterNamed(b"c" * 16))
RAISED = payload(facts.LevelRaised(2))
UNKNOWN = RAISED.replace(b"LevelRaised", b"LevelRaiseX")


def test_a_level_that_is_not_known_is_told_whatever_comes_behind_it() -> None:
    for behind in ((), (UNKNOWN,)):
        with pytest.raises(TooNew, match="level 2"):
            FollowedLane(SETTINGS, 0, Source(NAMED, RAISED, *behind), check)
        followed = FollowedLane(SETTINGS, 0, Source(NAMED), check)
        with pytest.raises(TooNew, match="level 2"):
            followed.read_on(Source(RAISED, *behind))


def test_what_is_not_known_at_a_known_level_is_damage() -> None:
    with pytest.raises(CorruptJournal):
        FollowedLane(SETTINGS, 0, Source(NAMED, UNKNOWN), check)


def test_nothing_is_told_before_anything_was_read() -> None:
    def refuse(level: int) -> None:
        raise AssertionError(level)

    FollowedLane(SETTINGS, 0, Source(), refuse)
