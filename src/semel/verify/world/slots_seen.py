"""The slots of a store as they came to be: what was first in each is the truth.

Nobody can change it later, and what is put into a slot that was collected says nothing. It decodes
by itself and knows nothing of what the nodes believe.
"""

import struct
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from semel.store.in_memory import Bucket

_HEADER = struct.Struct("<4sBc2xiii16sQQI")
SLOTS = "j/"
LANE_DIGITS: Final = 4
PUTS_AT_ONCE_MAX: Final = 8
"""By the rule, whatever the code says."""


class SlotAt(NamedTuple):
    lane: int
    slot: int


def slot_of(key: str) -> SlotAt:
    lane, _, slot = key.removeprefix(SLOTS).partition("/")
    return SlotAt(int(lane, 16), int(slot))


class SlotsSeen:
    """Of one lane."""

    def __init__(self, on_taken_over: Callable[[], None]) -> None:
        self._on_taken_over = on_taken_over
        """Called when another leads, and who led had not let go."""
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.epoch = -1
        self.leader = -1
        """The node whose fence is the latest that counts."""
        self.behind_fence = 0
        """So many entries count by now that its leader has made."""
        self._is_sealed = False
        self.next_slot = 0
        self.staying: set[int] = set()
        """Fences, seals and what is void."""
        self._ahead: dict[int, bytes] = {}
        """Entries that are there before one in front of them."""

    @property
    def has_hole(self) -> bool:
        """A slot is free, and one behind it is not."""
        return bool(self._ahead)

    def created(self, slot: int, stored: bytes) -> None:
        if slot < self.next_slot:
            self.counts["31 entry in a collected slot"] += 1
            return
        if slot >= self.next_slot + PUTS_AT_ONCE_MAX:
            self.violations.append(f"slot {slot} is too far ahead of {self.next_slot}")
        self.counts["slots that landed before others"] += slot > self.next_slot
        self._ahead[slot] = stored
        while (following := self._ahead.pop(self.next_slot, None)) is not None:
            self._follow(self.next_slot, following)
            self.next_slot += 1

    def _follow(self, slot: int, stored: bytes) -> None:
        _, _, kind, epoch, _, node, _, _, _, _ = _HEADER.unpack_from(stored)
        if kind != b"D" or epoch != self.epoch or self._is_sealed:
            self.staying.add(slot)
        if kind == b"F":
            self._fenced(epoch, node)
        elif epoch != self.epoch or self._is_sealed:
            self.counts["16 void entry"] += 1
        elif node != self.leader:
            self.violations.append(f"slot {slot}: node {node} and {self.leader} lead in {epoch}")
        elif kind == b"S":
            self._is_sealed = True
            self.counts["17 seal"] += 1
        else:
            self.behind_fence += 1
            self.counts["entries"] += 1

    def _fenced(self, epoch: int, node: int) -> None:
        if epoch <= self.epoch:
            self.violations.append(f"a fence of epoch {epoch} stands behind epoch {self.epoch}")
            return
        if self.epoch >= 0:
            self.counts["takeovers"] += 1
            self.counts["17 fence behind a seal, same term"] += self._is_sealed
            self.counts["17 fence without a seal, new term"] += not self._is_sealed
            self.counts["clean moves"] += self._is_sealed and node != self.leader
            if not self._is_sealed:
                self._on_taken_over()
        self.epoch, self.leader, self._is_sealed = epoch, node, False
        self.behind_fence = 0


class WatchedBucket(Bucket):
    def __init__(self, lane_count: int = 1) -> None:
        super().__init__()
        self.on_taken_over: Callable[[int], None] = lambda lane: None
        """Called with the lane."""
        self.lanes = [SlotsSeen(partial(self._taken_over, lane)) for lane in range(lane_count)]

    def create(self, key: str, content: bytes) -> None:
        super().create(key, content)
        if key.startswith(SLOTS):
            at = slot_of(key)
            self.lanes[at.lane].created(at.slot, content)

    def _taken_over(self, lane: int) -> None:
        self.on_taken_over(lane)

    @property
    def violations(self) -> list[str]:
        return [
            f"lane {number}: {violation}"
            for number, seen in enumerate(self.lanes)
            for violation in seen.violations
        ]

    @property
    def slot_counts(self) -> Counter[str]:
        return sum((seen.counts for seen in self.lanes), Counter())

    def stays(self, at: SlotAt) -> bool:
        """It is no data that counts, and so is never collected."""
        return at.slot in self.lanes[at.lane].staying

    def was_collected(self, at: SlotAt) -> bool:
        key = f"{SLOTS}{at.lane:0{LANE_DIGITS}x}/{at.slot:012d}"
        return at.slot < self.lanes[at.lane].next_slot and key not in self.objects
