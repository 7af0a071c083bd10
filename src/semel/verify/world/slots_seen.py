"""The slots of a store as they came to be: what was first in each is the truth.

Nobody can change it later, and what is put into a slot that was collected says nothing. It decodes
by itself and knows nothing of what the nodes believe.
"""

import struct
from collections import Counter

from semel.store.in_memory import Bucket

_HEADER = struct.Struct("<4sBc2xiii16sQQI")
SLOTS = "j/0000/"


class SlotsSeen:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.epoch = -1
        self.leader = -1
        """The node whose fence is the latest that counts."""
        self._is_sealed = False
        self._next_slot = 0

    def created(self, key: str, stored: bytes) -> None:
        slot = int(key.removeprefix(SLOTS))
        if slot < self._next_slot:
            self.counts["31 entry in a collected slot"] += 1
            return
        if slot > self._next_slot:
            self.violations.append(f"slot {slot} comes before {self._next_slot}, which is free")
        self._next_slot = slot + 1
        _, _, kind, epoch, _, node, _, _, _, _ = _HEADER.unpack_from(stored)
        if kind == b"F":
            self._fenced(epoch, node)
        elif epoch != self.epoch or self._is_sealed:
            self.counts["16 void entry or fence"] += 1
        elif node != self.leader:
            self.violations.append(f"slot {slot}: node {node} and {self.leader} lead in {epoch}")
        elif kind == b"S":
            self._is_sealed = True
            self.counts["17 seal"] += 1
        else:
            self.counts["entries"] += 1

    def _fenced(self, epoch: int, node: int) -> None:
        if epoch <= self.epoch:
            self.counts["16 void entry or fence"] += 1
            return
        if self.epoch >= 0:
            self.counts["takeovers"] += 1
            self.counts["17 fence behind a seal, same term"] += self._is_sealed
            self.counts["17 fence without a seal, new term"] += not self._is_sealed
            self.counts["clean moves"] += self._is_sealed and node != self.leader
        self.epoch, self.leader, self._is_sealed = epoch, node, False


class WatchedBucket(Bucket):
    def __init__(self) -> None:
        super().__init__()
        self.slots_seen = SlotsSeen()

    def create(self, key: str, content: bytes) -> None:
        super().create(key, content)
        if key.startswith(SLOTS):
            self.slots_seen.created(key, content)
