"""Topics that one test has to itself, on a broker that it shares with others."""

import itertools
import re
from types import TracebackType
from typing import Self

from semel.client.admin.blocking import Admin
from semel.client.admin.settings import Setting

_NAME_MAX = 200
_numbers = itertools.count(1)


class Topics:
    """Makes topics for the length of a `with` block, and deletes them with all that is in them.

    >>> orders = topics("orders", partitions=3)  # under a name that no other test has
    >>> topics.named("orders", "invoices")  # under exactly these names
    """

    def __init__(self, bootstrap_servers: str, owner: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._owner = owner
        self._made: list[str] = []

    def __call__(self, name: str = "topic", *, partitions: int = 1, **configs: Setting) -> str:
        """A topic of a new name that begins with this one; `retention_ms=1000` is a setting."""
        owned = re.sub(r"[^\w.-]+", "-", f"{name}-{self._owner}")[:_NAME_MAX]
        made = f"{owned}-{next(_numbers)}"
        self._make([made], partitions, configs)
        return made

    def named(self, *names: str, partitions: int = 1, **configs: Setting) -> None:
        """Empty topics of exactly these names, for code that has them written in it.

        What was there under these names is deleted, with the offsets that groups have of it.
        """
        with self._admin() as admin:
            admin.delete_topics(names, missing_ok=True)
        self._make(list(names), partitions, configs)

    def _make(self, names: list[str], partitions: int, configs: dict[str, Setting]) -> None:
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        with self._admin() as admin:
            self._made += names
            admin.create_topics(names, partitions=partitions, configs=dotted)

    def _admin(self) -> Admin:
        return Admin(self.bootstrap_servers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._made:
            with self._admin() as admin:
                admin.delete_topics(self._made, missing_ok=True)
