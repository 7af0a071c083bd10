"""Whom a consumer tells that partitions come and go."""

from typing import Generic, TypeVar

from semel.client.consuming.actions import Kind, Tell

_Listener = TypeVar("_Listener")


class Callbacks(Generic[_Listener]):
    def __init__(
        self,
        on_assigned: _Listener | None = None,
        on_revoked: _Listener | None = None,
        on_lost: _Listener | None = None,
    ) -> None:
        self._by_kind = {
            Kind.ASSIGNED: on_assigned,
            Kind.REVOKED: on_revoked,
            # Whoever does not care why they went is told that they did.
            Kind.LOST: on_revoked if on_lost is None else on_lost,
        }

    def of(self, tell: Tell) -> _Listener | None:
        return self._by_kind[tell.kind]
