"""Changing the access list, as both requests for it do."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from semel.access.rules import Rule
from semel.broker.answer import Call
from semel.errors import (
    JournalFull,
    PolicyViolation,
    RequestError,
    SecurityDisabled,
    StorageError,
)
from semel.lane.commands import Command
from semel.wire.rights import ALTER_CLUSTER

if TYPE_CHECKING:
    from semel.broker.broker import Broker

CHANGES_MAX: Final = 10_000
"""Rules or filters of one request, as in Kafka."""
RULES_PER_FRAME: Final = 100
"""A rule may have 3,000 characters."""
IS_OFF: Final = (
    "there are no access lists: whoever reaches this broker may do everything. "
    "The setting authorizer.class.name turns them on"
)


def check(broker: "Broker", call: Call, count: int) -> None:
    """Raises the refusal of all of a request."""
    call.require(ALTER_CLUSTER)
    if not broker.access.is_on:
        raise SecurityDisabled(IS_OFF)
    if count > CHANGES_MAX:
        raise PolicyViolation(f"{count} changes of the access list, more than {CHANGES_MAX} in one")


def submit_some(
    broker: "Broker",
    call: Call,
    command: Callable[[tuple[Rule, ...]], Command[tuple[Rule, ...]]],
    rules: Iterable[Rule],
    what: str,
) -> dict[Rule, RequestError]:
    """In frames of some rules each; gives those that were refused."""
    refused: dict[Rule, RequestError] = {}
    left = iter(rules)
    while some := tuple(islice(left, RULES_PER_FRAME)):
        try:
            changed = broker.lanes.controller.submit(command(some))
        except RequestError as error:
            refused.update(dict.fromkeys(some, error))
        except JournalFull as full:
            refused.update(dict.fromkeys(some, StorageError(str(full))))
        else:
            broker.rules_changed(changed)
            for rule in changed:
                broker.audit.changed(call.caller, what, rule=rule)
    return refused
