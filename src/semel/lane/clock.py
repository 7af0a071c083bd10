"""The lane's own time: what has passed, whatever the clocks of the machine were set to meanwhile.

While the broker runs it follows the monotonic clock. Over a rest only the wall clock goes on, so
a rest counts for as long as that says: from what it would have shown at the last frame, had nobody
set it back, to what it shows now.
"""

from typing import Final

from semel.world import Clock, Moment

WATCHED_MS: Final = 2_000
"""For so long time counts after someone has looked at it. Whoever is to look does so more often,
so that a process which looks later was held up: stopped, or on a machine that was. What it did not
hear meanwhile is nobody's silence."""

JUMP_MS_MIN: Final = 1_000
"""A wall clock that is set ahead by less is not worth a frame: nothing expires by seconds."""


class LaneClock:
    def __init__(self, clock: Clock, last: Moment | None, wall_ahead_ms: int) -> None:
        """`last` is the time of the last frame; None if it is not known.

        `wall_ahead_ms` is by how much the wall clock was ahead of the lane's time when it was last
        believed.
        """
        self._clock = clock
        wall_ms = clock.wall_ms()
        if last is None:
            last, wall_ahead_ms = Moment(wall_ms, wall_ms), 0
        # A clock that shows less than it did tells nothing about the rest. Counted as none, it
        # keeps what might have expired, and forgets nothing that has not.
        self._looked_ms = max(last.now_ms, wall_ms - wall_ahead_ms)
        self._looked_monotonic_ms = clock.monotonic_ms()
        self._ahead_at_open_ms = wall_ms - self._looked_ms
        self._shown_ms = max(wall_ms, last.wall_ms)
        self._moment = Moment(self._looked_ms, self._shown_ms)
        self._moment_monotonic_ms = -1

    def now_ms(self) -> int:
        passed_ms = self._clock.monotonic_ms() - self._looked_monotonic_ms
        return self._looked_ms + min(passed_ms, WATCHED_MS)

    def wall_ms(self) -> int:
        """What the wall clock shows, but never less than in a frame before."""
        wall_ms = self._clock.wall_ms()
        return wall_ms if wall_ms > self._shown_ms else self._shown_ms  # noqa: FURB136 - as below.

    def steady_wall_ms(self) -> int:
        """What the wall clock shows, but no more than if nobody had set it since the open."""
        return min(self._clock.wall_ms(), self.now_ms() + self._ahead_at_open_ms)

    def moment(self) -> Moment:
        """Both times, read anew in each millisecond: a busy lane takes many steps in one."""
        monotonic_ms = self._clock.monotonic_ms()
        if monotonic_ms != self._moment_monotonic_ms:
            self._moment_monotonic_ms = monotonic_ms
            passed_ms = monotonic_ms - self._looked_monotonic_ms
            if passed_ms > WATCHED_MS:  # noqa: PLR1730 - a call less for each step.
                passed_ms = WATCHED_MS
            self._moment = Moment(self._looked_ms + passed_ms, self.wall_ms())
        return self._moment

    def in_frame(self, at: Moment) -> None:
        """A frame says that it was made then. What was only looked at binds nobody: a clock that
        was set back meanwhile would seem to have shown it."""
        self._shown_ms = at.wall_ms

    def look(self) -> int:
        """The time now. Behind this look at most `WATCHED_MS` count until the next one."""
        monotonic_ms = self._clock.monotonic_ms()
        self._looked_ms += min(monotonic_ms - self._looked_monotonic_ms, WATCHED_MS)
        self._looked_monotonic_ms = monotonic_ms
        self._moment_monotonic_ms = -1
        return self._looked_ms

    def has_jumped(self, wall_ahead_ms: int) -> bool:
        """Whether the next process, if it is told this, would count more than has passed."""
        return self.wall_ms() - wall_ahead_ms - self.now_ms() >= JUMP_MS_MIN
