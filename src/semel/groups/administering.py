"""What an administrator asks about whole groups: which there are, what they are, and their end."""

from collections.abc import Collection, Iterable

from semel.errors import NONE, GroupIdNotFound, NonEmptyGroup, RequestError
from semel.groups.commands import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    GroupListing,
    Ticket,
)
from semel.groups.group import Group
from semel.groups.lasting import LastingGroups
from semel.groups.records import GroupForgotten, OffsetForgotten
from semel.groups.states import State
from semel.groups.turn import Turn
from semel.types import GroupId


def listings(groups: Iterable[Group], states: Collection[str]) -> list[GroupListing]:
    """Of all, or of those in one of these states; case does not matter."""
    wanted = {state.lower() for state in states}
    found = (group.listing() for group in groups)
    return [listing for listing in found if not wanted or listing.state.lower() in wanted]


def delete(lasting: LastingGroups, command: DeleteGroups, ticket: Ticket, turn: Turn) -> None:
    deleted = []
    for group_id in dict.fromkeys(command.group_ids):
        try:
            _delete_one(lasting, group_id, turn)
            error_code = NONE
        except RequestError as refusal:
            error_code = refusal.code
        deleted.append(DeletedGroup(group_id, error_code))
    turn.answer(ticket, DeleteGroupsReply(tuple(deleted)))


def _delete_one(lasting: LastingGroups, group_id: GroupId, turn: Turn) -> None:
    group = lasting.by_id.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"{group_id} is not a group")
    # What is pending in a transaction must stay: its marker is yet to come.
    if group.state is not State.EMPTY or group.offsets.pending:
        raise NonEmptyGroup(f"{group_id} is {group.state.value}")
    group.pending_members.clear()
    for partition in group.offsets.committed:
        turn.write(OffsetForgotten(group_id, *partition))
    if group.recorded is not None:
        turn.write(GroupForgotten(group_id))
    lasting.drop_if_vacant(group)
