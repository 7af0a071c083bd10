"""Quotas: how much users, client ids and addresses may ask of each broker."""

from collections.abc import Mapping
from typing import Final

from semel.access.quotas import EVERY_OTHER, Entity
from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.wire.messages import alter_client_quotas, describe_client_quotas

KINDS: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}
"""What the parts of an entity are called in requests."""
EXACT, DEFAULT = 0, 1


def _said(entity: Entity) -> dict[str, str | None]:
    """By kind; None is the default."""
    names = entity._asdict()
    return {kind: names[part] or None for part, kind in KINDS.items() if names[part] is not None}


async def describe(
    cluster: Cluster, entity: Entity | None = None
) -> dict[Entity, dict[str, float]]:
    """All that are set, or those of exactly this entity."""
    components = [
        describe_client_quotas.ComponentData(kind, DEFAULT if name is None else EXACT, name)
        for kind, name in ({} if entity is None else _said(entity)).items()
    ]
    request = describe_client_quotas.DescribeClientQuotasRequest(components, bool(components))

    async def attempt() -> dict[Entity, dict[str, float]]:
        reply = await cluster.call_any(describe_client_quotas, request)
        raise_for(reply.error_code, "quotas", reply.error_message)
        return {
            _entity(entry.entity): {value.key: value.value for value in entry.values}
            for entry in reply.entries or ()
        }

    return await cluster.retry(attempt)


def _entity(parts: list[describe_client_quotas.EntityData]) -> Entity:
    names = {part.entity_type: part.entity_name or EVERY_OTHER for part in parts}
    return Entity(*(names.get(kind) for kind in KINDS.values()))


async def alter(cluster: Cluster, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Set these for the entity; None drops one."""
    operations = [
        alter_client_quotas.OpData(name, value or 0.0, value is None)
        for name, value in changes.items()
    ]
    parts = [alter_client_quotas.EntityData(kind, name) for kind, name in _said(entity).items()]
    request = alter_client_quotas.AlterClientQuotasRequest(
        [alter_client_quotas.EntryData(parts, operations)]
    )

    async def attempt() -> None:
        asked = await cluster.controller_id()
        reply = await cluster.call(asked, alter_client_quotas, request)
        for result in reply.entries:
            raise_for(result.error_code, f"quotas of {entity}", result.error_message)

    await cluster.retry(attempt)
