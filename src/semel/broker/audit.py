"""The audit log: who signed in, what was refused to whom, and what was changed of who may do what.

One stream of lines that all have the same few names, in the broker's log. A change is told each
time. What comes again and again, from the same place and for the same reason, is told at once the
first time and then counted: whoever knocks at the door all day must not fill the disk.
"""

from collections import Counter
from typing import Any, Final, Protocol

from semel.access.principal import Caller
from semel.broker import log
from semel.wire.rights import CLUSTER_NAME, Right
from semel.world import Clock

COUNTED_S: Final = 60.0
"""Between two lines that say the same."""
KINDS_MAX: Final = 1_000
"""So many lines of one event are remembered, beyond which what is new is counted together. Of each:
who makes up names at the door must not keep out of the log who has come in."""
SHOWN_MAX: Final = 200
"""Of a text that a client has said."""

Values = tuple[tuple[str, str], ...]


class Sink(Protocol):
    def __call__(self, event: str, **values: Any) -> None: ...


class Audit:
    def __init__(self, clock: Clock, sink: Sink = log.info) -> None:
        self._clock = clock
        self._sink = sink
        self._counted: dict[tuple[str, Values], _Counted] = {}
        self._kinds: Counter[str] = Counter()
        self._overflow: Counter[str] = Counter()

    def signed_in(self, caller: Caller, mechanism: str) -> None:
        self._told_or_counted("signed in", (*_of(caller), ("mechanism", mechanism)))

    def sign_in_refused(
        self, listener: str, host: str, mechanism: str, user: str, reason: str
    ) -> None:
        """`user` is whom the client claims to be; empty if it has not come so far."""
        values = (
            ("user", user),
            ("host", host),
            ("listener", listener),
            ("mechanism", mechanism),
            ("reason", reason),
        )
        self._told_or_counted("sign-in refused", values)

    def access_refused(
        self, caller: Caller, right: Right, name: str = CLUSTER_NAME, rule: str = ""
    ) -> None:
        """`rule` is the one that denies it, if there is one."""
        values = (*_of(caller), ("right", str(right)), ("name", name), ("rule", rule))
        self._told_or_counted("access refused", values)

    def session_ended(self, caller: Caller, reason: str) -> None:
        """We have ended the session, and not because of what the client did."""
        self._told_or_counted("session ended", (*_of(caller), ("reason", reason)))

    def changed(self, caller: Caller, what: str, **details: object) -> None:
        """Users, rules, quotas, topics: `what` says it in a word or two, as in "user set"."""
        values = (*_of(caller), *((name, str(value)) for name, value in details.items()))
        self._sink(what, **_as_told(values))

    def tell(self) -> None:
        """Say what was counted and not yet said, of which the time has come."""
        now_ms = self._clock.monotonic_ms()
        for key, counted in list(self._counted.items()):
            if now_ms >= counted.silent_until_ms:
                event, values = key
                del self._counted[key]
                self._kinds[event] -= 1
                if counted.untold:
                    self._sink(event, **_as_told(values), times=counted.untold)
        for event, times in list(self._overflow.items()):
            if self._kinds[event] < KINDS_MAX:
                self._sink("more of many kinds", of=event, times=times)
                del self._overflow[event]

    def _told_or_counted(self, event: str, values: Values) -> None:
        key = event, values
        counted = self._counted.get(key)
        if counted is not None:
            counted.untold += 1
        elif self._kinds[event] >= KINDS_MAX:
            self._overflow[event] += 1
        else:
            self._kinds[event] += 1
            self._counted[key] = _Counted(self._clock.monotonic_ms() + int(COUNTED_S * 1000))
            self._sink(event, **_as_told(values))


class _Counted:
    __slots__ = ("silent_until_ms", "untold")

    def __init__(self, silent_until_ms: int) -> None:
        self.silent_until_ms = silent_until_ms
        self.untold = 0


def _of(caller: Caller) -> Values:
    principal = str(caller.principal)
    return ("principal", principal), ("host", caller.host), ("listener", caller.listener)


def _as_told(values: Values) -> dict[str, str]:
    return {name: _shown(value) for name, value in values if value}


def _shown(value: str) -> str:
    """Whatever a client has said is one line, and no escape sequence of a terminal."""
    shown = value[:SHOWN_MAX]
    return shown if shown.isprintable() else ascii(shown)[1:-1]
