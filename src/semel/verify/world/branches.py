"""Counts which branches of the rules about slots a run has taken, by number and by what came of it.

They are counted from outside, around the functions that decide, so that nothing of it is in the
product. What is compiled cannot be watched so, and counts nothing.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from semel.broker.transactional import LateRequests
from semel.errors import JournalFailed
from semel.journal.slots import landing, opening, writer
from semel.journal.slots.barrier import Barriers
from semel.journal.slots.collecting import Collecting
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.landing import Found
from semel.journal.slots.opening import Boundary, NotTaken
from semel.journal.slots.reading import Reading
from semel.journal.slots.writer import Put, Writer
from semel.lane.clock import LaneClock
from semel.store.disk_cache import DiskCache
from semel.verify.world.lane_branches import Wrapper, watched_lanes
from semel.volumes.objects import ObjectVolumes

RULES: dict[str, tuple[str, ...]] = {
    "15": ("own nonce", "foreign", "none, same bytes again", "stepped down before a foreign entry"),
    "16": ("void entry", "PUT passed over a void entry", "GET passed over a void entry"),
    "17": ("fence behind a seal, same term", "fence without a seal, new term"),
    "18": (
        "barrier asked",
        "barrier passed",
        "GET found an own entry",
        "GET found a foreign entry",
        "stepped down without a barrier",
    ),
    "28": ("TV1 request on an older connection closed",),
    "31": ("boundary holds", "replayed anew", "fence given up", "objects deleted"),
    "32": ("listed again", "begun anew"),
    "33": ("outage, waits anew",),
    "34": ("slot kept", "read from the cache", "damaged, a miss", "dropped with its leader"),
    "35": ("volume of a fenced leader removed", "other that is not named left alone"),
    "36": ("opened with a clock behind the last frame", "opened with a clock ahead of it"),
    "37": ("batch refused as too large",),
}
"""By number."""


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        for owner, name, wrapper in _watched(counts):
            stack.enter_context(_replaced(owner, name, wrapper))
        yield counts


@contextlib.contextmanager
def _replaced(owner: Any, name: str, wrapper: Wrapper) -> Iterator[None]:
    original = getattr(owner, name)
    try:
        setattr(owner, name, wrapper(original))
    except TypeError:
        yield  # It is compiled.
        return
    try:
        yield
    finally:
        setattr(owner, name, original)


def _watched(counts: Counter[str]) -> Iterator[tuple[Any, str, Wrapper]]:
    yield landing, "judge", _by_result(counts, LANDED)
    yield writer, "judge", _by_result(counts, LOOKED)
    yield Writer, "_found", _looked(counts)
    yield Writer, "_land", _landed(counts)
    yield Reading, "confirmed", _each(counts, "34 slot kept")
    yield DiskCache, "get", _cached(counts)
    yield DiskCache, "of_leader", _cut(counts)
    yield ObjectVolumes, "_is_old", _by_result(counts, STRANGERS)
    yield opening, "look_again", _by_result(counts, LOOKED_AGAIN)
    yield Barriers, "ask", _each(counts, "18 barrier asked")
    yield Barriers, "proved", _sized(counts, "18 barrier passed")
    yield Writer, "_lost", _each(counts, "15 stepped down before a foreign entry")
    yield SlotJournal, "_on_no_barrier", _gave_up(counts)
    yield Follower, "_found_free", _listed(counts)
    yield Follower, "look", _waited_anew(counts)
    yield Follower, "take", _taken(counts)
    yield Collecting, "_add", _added(counts)
    yield LaneClock, "__init__", _clock(counts)
    yield LateRequests, "admit", _admitted(counts)
    yield from watched_lanes(counts)


LANDED = {
    Found.OURS: "15 own nonce",
    Found.FOREIGN: "15 foreign",
    Found.FREE: "15 none, same bytes again",
}
LOOKED = {
    Found.OURS: "18 GET found an own entry",
    Found.FOREIGN: "18 GET found a foreign entry",
    Found.FREE: "18 GET found it free",
}
STRANGERS = {
    True: "35 volume of a fenced leader removed",
    False: "35 other that is not named left alone",
}
LOOKED_AGAIN = {
    Boundary.HOLDS: "31 boundary holds",
    Boundary.REPLAY: "31 replayed anew",
    Boundary.GIVE_UP: "31 fence given up",
}


def _by_result(counts: Counter[str], names: dict[Any, str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            result = function(*arguments)
            counts[names[result]] += 1
            return result

        return watched

    return wrap


def _each(counts: Counter[str], name: str) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return watched

    return wrap


def _looked(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Writer, slot: int) -> Found:
            found: Found = await function(self, slot)
            counts["16 GET passed over a void entry"] += found is Found.VOID
            return found

        return watched

    return wrap


def _landed(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Writer, put: Put) -> None:
            slot = put.slot
            await function(self, put)
            counts["16 PUT passed over a void entry"] += put.slot - slot

        return watched

    return wrap


def _cached(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: DiskCache, *arguments: Any) -> Any:
            held = self.bytes_held
            found = await function(self, *arguments)
            counts["34 read from the cache"] += found is not None
            counts["34 damaged, a miss"] += found is None and self.bytes_held < held
            return found

        return watched

    return wrap


def _cut(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: DiskCache, *arguments: Any) -> Any:
            held = self.bytes_held
            cut = function(self, *arguments)
            counts["34 dropped with its leader"] += self.bytes_held < held
            return cut

        return watched

    return wrap


def _sized(counts: Counter[str], name: str) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            result = function(*arguments)
            counts[name] += len(result)
            return result

        return watched

    return wrap


def _gave_up(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: SlotJournal) -> None:
            before: JournalFailed | None = self.failure
            function(self)
            if before is None and self.failure is not None:
                counts["18 stepped down without a barrier"] += 1

        return watched

    return wrap


def _listed(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Follower, begun_s: float) -> bool:
            since_s = self._free_since_s
            if since_s is not None and begun_s - since_s >= self._settings.free_s:
                counts["32 listed again"] += 1
            is_begun: bool = await function(self, begun_s)
            counts["32 begun anew"] += is_begun
            return is_begun

        return watched

    return wrap


def _waited_anew(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Follower) -> bool:
            slot, lasted_s = self.slot, self.silence.lasted_s
            is_begun: bool = await function(self)
            if lasted_s > 0 and self.silence.lasted_s == 0.0 and self.slot == slot:
                counts["33 outage, waits anew"] += 1
            return is_begun

        return watched

    return wrap


def _taken(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*arguments: Any, **options: Any) -> SlotJournal:
            try:
                journal: SlotJournal = await function(*arguments, **options)
            except NotTaken:
                counts["taking: others were faster"] += 1
                raise
            how = "from what was followed" if journal.is_continued else "from a checkpoint"
            counts[f"taking: {how}"] += 1
            return journal

        return watched

    return wrap


def _added(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Collecting, names: list[str]) -> None:
            counts["31 objects deleted"] += len(names)
            function(self, names)

        return watched

    return wrap


def _clock(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: LaneClock, clock: Any, last: Any, wall_ahead_ms: int) -> None:
            function(self, clock, last, wall_ahead_ms)
            if last is not None:
                is_behind = clock.wall_ms() - wall_ahead_ms < last.now_ms
                what = "behind the last frame" if is_behind else "ahead of it"
                counts[f"36 opened with a clock {what}"] += 1

        return watched

    return wrap


def _admitted(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: LateRequests, *arguments: Any) -> bool:
            is_admitted: bool = function(self, *arguments)
            if not is_admitted:
                counts["28 TV1 request on an older connection closed"] += 1
            return is_admitted

        return watched

    return wrap
