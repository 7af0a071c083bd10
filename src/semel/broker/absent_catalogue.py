"""The catalogue as a broker sees it that does not lead lane 0.

What was known before may never have become durable, so that nothing of it is said.
"""

from collections.abc import Iterator
from typing import NoReturn

from semel.errors import NotLeaderOrFollower
from semel.lane.view import TopicView


class AbsentCatalogue:
    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[TopicView]:
        self._refuse()

    def walk(self, first: str = "") -> Iterator[TopicView]:
        self._refuse()

    def __contains__(self, name: str) -> bool:
        self._refuse()

    def get(self, name: str) -> TopicView | None:
        self._refuse()

    def with_id(self, topic_id: bytes) -> TopicView | None:
        self._refuse()

    def named(self, name: str) -> TopicView:
        self._refuse()

    def has_partition(self, name: str, index: int) -> bool:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotLeaderOrFollower("the topics are led elsewhere")
