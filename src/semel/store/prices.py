"""What a store costs by a price list."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Final, Self

from semel.errors import ConfigError
from semel.store.counting import Usage

MONTH_S: Final = 30 * 86_400
GB: Final = 10**9


@dataclass(frozen=True, slots=True)
class PriceList:
    """In US dollars; requests by the thousand."""

    put: float = 0.0
    get: float = 0.0
    list: float = 0.0
    delete: float = 0.0
    gb_month: float = 0.0
    """To keep a gigabyte for a month."""
    gb_read: float = 0.0
    """To read one, from where the brokers are."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`put=0.005 get=0.0004 ...`: what is not named is free. Raises ConfigError."""
        known = {field.name for field in dataclasses.fields(cls)}
        prices: dict[str, float] = {}
        for named in text.split():
            name, _, price = named.partition("=")
            if name not in known:
                raise ConfigError(f"prices have no {name!r}: {', '.join(sorted(known))} are known")
            try:
                prices[name] = float(price)
            except ValueError:
                raise ConfigError(f"the price {named!r} is not a number") from None
            if not 0 <= prices[name] < math.inf:
                raise ConfigError(f"the price {named!r} is below 0 or no amount")
        return cls(**prices)

    def month_usd(self, usage: Usage, elapsed_s: float, stored_bytes: int = 0) -> float:
        """What a month costs that goes on as these seconds went."""
        requests = (
            usage.puts * self.put
            + usage.gets * self.get
            + usage.lists * self.list
            + usage.deletes * self.delete
        ) / 1000
        moved = usage.bytes_read / GB * self.gb_read
        kept = stored_bytes / GB * self.gb_month
        asked = (requests + moved) * MONTH_S / elapsed_s if elapsed_s else 0.0
        return asked + kept


S3_PRICES: Final = "put=0.005 get=0.0004 list=0.005 gb_month=0.023"
"""Of S3 Standard in us-east-1, first tier, read within the region, in 2026."""
