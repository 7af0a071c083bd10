"""AlterClientQuotas (api key 49), versions 0-1.

v1  flexible encoding

The changes of one entity succeed or fail together; those of others in the same request do not
suffer. They count everywhere when the answer comes.
"""

import ipaddress
from contextlib import suppress
from typing import TYPE_CHECKING

from semel.access.quotas import EVERY_OTHER, Entity
from semel.broker.answer import Answer, Call, Handled
from semel.broker.handlers.describe_client_quotas import PART_NAMES
from semel.errors import (
    InvalidRequest,
    JournalFull,
    RequestError,
    StorageError,
)
from semel.lane.quotas import AlterQuotas
from semel.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryResult,
    OpData,
)
from semel.wire.rights import ALTER_CLUSTER_CONFIGS

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def alter_client_quotas(broker: "Broker", request: AlterClientQuotasRequest, call: Call) -> Handled:
    seen: set[Entity] = set()
    is_allowed = call.may(ALTER_CLUSTER_CONFIGS)
    results = []
    for entry in request.entries:
        error: RequestError | None = None
        try:
            if not is_allowed:
                raise call.refusal(ALTER_CLUSTER_CONFIGS)
            _alter(broker, entry, call, seen, only_check=request.validate_only)
        except RequestError as refusal:
            error = refusal
        except JournalFull as full:
            error = StorageError(str(full))
        code = 0 if error is None else error.code
        message = None if error is None else str(error) or None
        results.append(EntryResult(code, message, entry.entity))
    return broker.topics.once_heard(Answer(AlterClientQuotasResponse(entries=results)))


def _alter(
    broker: "Broker", entry: EntryData, call: Call, seen: set[Entity], *, only_check: bool
) -> None:
    entity = _entity(entry.entity)
    if entity in seen:
        raise InvalidRequest(f"{entity} is named twice")
    seen.add(entity)
    changes = _changes(entry.ops)
    broker.lanes.controller.submit(AlterQuotas(entity, changes, only_check))
    if not only_check:
        broker.quotas_changed(entity)
        shown = {
            name: "none" if value is None else f"{value:.15g}" for name, value in changes.items()
        }
        broker.audit.changed(call.caller, "quota set", entity=entity, **shown)


def _entity(parts: list[EntityData]) -> Entity:
    names: dict[str, str] = {}
    for part in parts:
        kind = PART_NAMES.get(part.entity_type)
        if kind is None:
            raise InvalidRequest(f"there are no quotas of a {part.entity_type!r}")
        if kind in names:
            raise InvalidRequest(f"{part.entity_type} is named twice")
        if part.entity_name == "":
            raise InvalidRequest(f"an empty {part.entity_type} has no quota")
        names[kind] = EVERY_OTHER if part.entity_name is None else part.entity_name
    if names.get("ip"):
        # An address of IPv6 can be written in many ways; what is none is refused later.
        with suppress(ValueError):
            names["ip"] = str(ipaddress.ip_address(names["ip"]))
    return Entity(**names)


def _changes(operations: list[OpData]) -> dict[str, float | None]:
    changes: dict[str, float | None] = {}
    for operation in operations:
        if operation.key in changes:
            raise InvalidRequest(f"{operation.key} is named twice")
        changes[operation.key] = None if operation.remove else operation.value
    return changes
