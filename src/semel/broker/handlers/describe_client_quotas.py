"""DescribeClientQuotas (api key 48), versions 0-1: the quotas that are set, by whom they are for.

v1  flexible encoding
"""

from typing import TYPE_CHECKING, Final

from semel.access.quotas import EVERY_OTHER, Entity, QuotasView
from semel.broker.answer import Answer, Call
from semel.errors import (
    InvalidRequest,
    NotController,
    RequestError,
    UnsupportedVersion,
)
from semel.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from semel.wire.rights import DESCRIBE_CLUSTER_CONFIGS

if TYPE_CHECKING:
    from semel.broker.broker import Broker

PART_NAMES: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""What Kafka calls the parts of an entity, and what we do."""
EXACT, DEFAULT, SPECIFIED = range(3)

Wanted = dict[str, str | None]
"""By the part: its name, or None for any that is said."""


def describe_client_quotas(
    broker: "Broker", request: DescribeClientQuotasRequest, call: Call
) -> Answer:
    try:
        if not call.may(DESCRIBE_CLUSTER_CONFIGS):
            raise call.refusal(DESCRIBE_CLUSTER_CONFIGS)
        wanted = _wanted(request.components)
        quotas = broker.lanes.quotas
        if quotas is None:
            raise NotController("the quotas are led elsewhere")
    except RequestError as error:
        refused = DescribeClientQuotasResponse(
            error_code=error.code, error_message=str(error) or None
        )
        return Answer(refused)
    entries = [
        _entry(entity, quotas)
        for entity in quotas
        if _matches(entity, wanted, is_strict=request.strict)
    ]
    return Answer(DescribeClientQuotasResponse(entries=entries))


def _wanted(components: list[ComponentData]) -> Wanted:
    wanted: Wanted = {}
    for component in components:
        if not component.entity_type:
            raise InvalidRequest("a part of the filter names no kind")
        part = PART_NAMES.get(component.entity_type)
        if part is None:
            raise UnsupportedVersion(f"there are no quotas of a {component.entity_type!r}")
        if part in wanted:
            raise InvalidRequest(f"the filter names {component.entity_type} twice")
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise InvalidRequest(f"there is no way {component.match_type} to match")
        if (component.match_type == EXACT) != (component.match is not None):
            raise InvalidRequest("a name is given where one is to be matched, and nowhere else")
        wanted[part] = EVERY_OTHER if component.match_type == DEFAULT else component.match
    if "ip" in wanted and len(wanted) > 1:
        raise InvalidRequest("the quota of an address is for no user and no client id")
    return wanted


def _matches(entity: Entity, wanted: Wanted, *, is_strict: bool) -> bool:
    said = {part: name for part, name in entity._asdict().items() if name is not None}
    if is_strict and said.keys() != wanted.keys():
        return False
    return all(
        part in said and (name is None or said[part] == name) for part, name in wanted.items()
    )


def _entry(entity: Entity, quotas: QuotasView) -> EntryData:
    names = entity._asdict()
    parts = [
        EntityData(kind, names[part] or None)
        for kind, part in PART_NAMES.items()
        if names[part] is not None
    ]
    return EntryData(parts, [ValueData(*each) for each in quotas.of(entity).items()])
