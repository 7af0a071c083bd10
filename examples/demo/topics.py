"""The names of one run's topics."""

from typing import NamedTuple


class Topics(NamedTuple):
    prefix: str

    @property
    def orders(self) -> str:
        return f"{self.prefix}-orders"

    @property
    def enriched(self) -> str:
        return f"{self.prefix}-enriched"

    @property
    def revenue(self) -> str:
        return f"{self.prefix}-revenue"
