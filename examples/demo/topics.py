"""The names of one run's topics."""

from typing import NamedTuple


class Topics(NamedTuple):
    prefix: str

    @property
    def all(self) -> list[str]:
        return [self.orders, self.enriched, self.revenue]

    @property
    def orders(self) -> str:
        return f"{self.prefix}-orders"

    @property
    def enriched(self) -> str:
        return f"{self.prefix}-enriched"

    @property
    def revenue(self) -> str:
        return f"{self.prefix}-revenue"
