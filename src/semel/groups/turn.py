"""One step while it is being decided: its moment, its limits, and what it leads to so far."""

from semel.groups.commands import Reply, Step, Ticket
from semel.groups.records import GroupRecord
from semel.groups.settings import GroupSettings
from semel.world import Moment


class Turn:
    def __init__(self, settings: GroupSettings, at: Moment) -> None:
        self.settings = settings
        self.now_ms = at.now_ms
        self.wall_ms = at.wall_ms
        self.records: list[GroupRecord] = []
        self.replies: list[tuple[Ticket, Reply]] = []

    def write(self, record: GroupRecord) -> None:
        self.records.append(record)

    def answer(self, ticket: Ticket | None, reply: Reply) -> None:
        """A ticket of None is one whose connection is gone."""
        if ticket is not None:
            self.replies.append((ticket, reply))

    def step(self) -> Step:
        return Step(tuple(self.records), tuple(self.replies))
