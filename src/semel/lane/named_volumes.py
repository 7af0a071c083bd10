"""Which volumes the state at the end of a journal names, for who reads it without opening it.

Only the facts are applied on which that depends: batches need not be opened for it.
"""

from collections.abc import Sequence
from typing import Final

from semel.errors import CorruptJournal, CorruptMessage
from semel.groups.coordinator import Groups
from semel.groups.settings import GroupSettings
from semel.lane import facts
from semel.lane.facts import AnyFact
from semel.lane.frame import Frame, decode
from semel.lane.partition_names import restored
from semel.lane.state import LaneState
from semel.transactions.store import Transactions
from semel.types import Position

_APPLIED: Final = (
    facts.TopicCreated,
    facts.PartitionsAdded,
    facts.PartitionsHosted,
    facts.TopicDeleted,
    facts.RecordsDeleted,
    facts.Settled,
    facts.Compacted,
)


class NamedVolumes:
    def __init__(self, state: LaneState | None = None) -> None:
        """From this state on, which is nobody else's; without one, from the first frame on."""
        self._state = state or LaneState(Groups(GroupSettings()), Transactions())

    def snapshot(self, stored: bytes) -> None:
        """Of the checkpoint at which the frames begin. Raises CorruptJournal, NewerFormat."""
        self._state = restored(stored)

    def frame(self, payload: memoryview, position: int) -> None:
        """The next; its payload begins there. Raises CorruptJournal."""
        try:
            decoded = decode(payload, Position(position))
        except CorruptMessage as error:
            raise CorruptJournal(f"frame at byte {position}: {error}") from error
        self.apply(decoded)

    def apply(self, frame: Frame) -> None:
        told = [entry for entry in frame.entries if isinstance(entry, _APPLIED)]
        if told:
            self._apply(frame, told)

    def _apply(self, frame: Frame, told: Sequence[AnyFact]) -> None:
        state = self._state
        for fact in told:
            if isinstance(fact, facts.Compacted):
                # A deletion takes what was written to, and batches are not looked at here.
                for number, _, _ in fact.parts:
                    state.hosting.numbered(number)
        short = Frame(frame.at)
        short.entries.extend(told)
        state.apply(short)

    def numbers(self) -> set[int]:
        """The numbers of the volumes that lie in the folder."""
        return self._state.named_volumes() - self._state.volume_names.keys()
