"""A history put in order, for all who judge it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from semel.types import TopicPartition
from semel.verify.judging.operations import Any, AtRest, End, Known, Poll, Send

Kind = TypeVar("Kind", bound=Any)


class Facts:
    def __init__(self, operations: Iterable[Any]) -> None:
        self._by_kind: dict[type[object], list[Any]] = defaultdict(list)
        for operation in operations:
            self._by_kind[type(operation)].append(operation)
        self.at_rest = {each.partition: each for each in self.all(AtRest)}
        self.sends = sorted(self.all(Send), key=lambda send: send.span)
        self.polls = sorted(self.all(Poll), key=lambda poll: poll.span)
        self.send_of = {send.value: send for send in self.sends}
        self.ends = {end.transaction: end for end in self._ends()}
        self.sends_of: dict[str, list[Send]] = defaultdict(list)
        for send in self.sends:
            if send.transaction is not None:
                self.sends_of[send.transaction].append(send)
        self.visible: dict[TopicPartition, dict[str, int]] = {
            partition: {record.value: record.offset for record in rest.records}
            for partition, rest in self.at_rest.items()
        }
        """Values that are there at rest, with their offsets."""

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [each for each in self._by_kind[kind] if isinstance(each, kind)]

    def _ends(self) -> Iterator[End]:
        """The last that is said of a transaction is what is known of it."""
        yield from sorted(self.all(End), key=lambda end: (end.known is not Known.UNKNOWN, end.span))

    def is_committed(self, transaction: str) -> bool:
        """It was told so."""
        end = self.ends.get(transaction)
        return end is not None and end.is_commit and end.known is Known.OK

    def is_aborted(self, transaction: str) -> bool:
        """It was told so, or the commit was never asked for and never will be."""
        end = self.ends.get(transaction)
        if end is None or end.known is Known.UNKNOWN:
            return False
        return not end.is_commit or end.known is Known.FAILED

    def is_acknowledged(self, send: Send) -> bool:
        """It must be there."""
        if send.known is not Known.OK:
            return False
        return send.transaction is None or self.is_committed(send.transaction)

    def has_failed(self, send: Send) -> bool:
        """No committed read may show it."""
        if send.transaction is not None and self.is_aborted(send.transaction):
            return True
        return send.known is Known.FAILED

    def is_visible(self, transaction: str) -> bool:
        """At rest, at least in part."""
        return any(
            send.value in self.visible.get(send.partition, ())
            for send in self.sends_of.get(transaction, ())
        )


class Rising:
    """The largest value that was known before a given time."""

    def __init__(self, known: Iterable[tuple[float, int]]) -> None:
        self._times_s: list[float] = []
        self._values: list[int] = []
        for time_s, value in sorted(known):
            self._times_s.append(time_s)
            self._values.append(max(value, self._values[-1] if self._values else value))

    def before(self, time_s: float) -> int | None:
        place = bisect_left(self._times_s, time_s)
        return self._values[place - 1] if place else None
