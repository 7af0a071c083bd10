"""Lane 0 tells other workers of topics, settings, users and so on, and knows what each has heard.

Each worker asks for what is new, and says with the next question that it has worked in the last
answer: its lanes host then what was placed in them, and have dropped what is gone. Nothing is told
that is not durable.

Law: a name that was deleted is free when every lane has dropped what it had of it. Else whoever
still knows the old topic would take records for the new one, and drop them when it hears of that.
"""

import asyncio
import contextlib
import enum
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Protocol

from semel.access.quotas import Entity
from semel.access.rules import Rule
from semel.cluster.messages import (
    AnyAnswer,
    AnyNews,
    BrokerTold,
    Follow,
    QuotasTold,
    Refused,
    RuleTold,
    Told,
    TopicGone,
    TopicTold,
    UserTold,
)
from semel.lane.lane import Lane
from semel.world import Randomness

AT_ONCE: Final = 1000
"""Things in one answer."""
NEWS_S_MAX: Final = 1.5
"""So long a worker waits for news before it is told that there are none. What it knows of access
counts for five seconds, and is as old as its question."""
LIVE_S: Final = 4.0
"""Who has not asked for so long is not waited for."""
HEARD_S_MAX: Final = 5.0
"""So long who changed something waits until others know."""
TELLING_SIZE: Final = 16


class Tells(Protocol):
    """Whoever lets others know of what has changed in the catalogue, and hears that they do."""

    last_change: int

    def topic(self, name: str) -> int: ...

    def broker(self, name: str) -> int: ...

    def user(self, name: str) -> int: ...

    def rule(self, rule: Rule) -> int: ...

    def quotas(self, entity: Entity) -> int: ...

    @property
    def have_all_begun(self) -> bool: ...

    def have_all_heard(self, change: int) -> bool: ...

    async def until_heard(self, change: int | None = None) -> None: ...

    async def until_all_have_begun(self) -> None: ...


class Subject(enum.Enum):
    """What something is told of: a rule, quotas of an entity, or what has this name."""

    TOPIC = enum.auto()
    BROKER = enum.auto()
    USER = enum.auto()
    RULE = enum.auto()
    QUOTAS = enum.auto()


Name = str | Rule | Entity
About = tuple[Subject, Name]


class _Listener:
    """A worker that follows."""

    def __init__(self, telling: bytes, untold: Iterable[About], now_s: float) -> None:
        self.telling = telling
        self.told = 0
        """Answers that were given."""
        self.untold: dict[About, None] = dict.fromkeys(untold)
        """What may be other than it knows."""
        self.offered: int | None = None
        """The last change of which the last answer has told; None before all was told once."""
        self.heard: int | None = None
        """The last change that it has worked in."""
        self.asked_s = now_s
        self.is_asking = False
        self.has_news = asyncio.Event()


class Telling:
    def __init__(
        self,
        node_ids: Iterable[int],
        randomness: Randomness,
        leaders: Callable[[], list[tuple[int, int, int]]],
        now_s: Callable[[], float],
    ) -> None:
        """`leaders` are those of all lanes that are known."""
        self._node_ids = tuple(node_ids)
        """Of the other workers, each of which leads lanes."""
        self._randomness = randomness
        self._leaders = leaders
        self._now_s = now_s
        self._controller: Lane | None = None
        self.last_change = 0
        """How often something has changed."""
        self._listeners: dict[int, _Listener] = {}
        self._has_heard = asyncio.Event()
        """Set and forgotten whenever somebody has worked in something."""

    def lead(self, controller: Lane) -> None:
        self._controller = controller

    # What has changed

    def topic(self, name: str) -> int:
        """Gives the number of this change."""
        return self._changed(Subject.TOPIC, name)

    def broker(self, name: str) -> int:
        return self._changed(Subject.BROKER, name)

    def user(self, name: str) -> int:
        return self._changed(Subject.USER, name)

    def rule(self, rule: Rule) -> int:
        return self._changed(Subject.RULE, rule)

    def quotas(self, entity: Entity) -> int:
        return self._changed(Subject.QUOTAS, entity)

    def _changed(self, subject: Subject, what: Name) -> int:
        self.last_change += 1
        for listener in self._listeners.values():
            listener.untold[subject, what] = None
            listener.has_news.set()
        return self.last_change

    def leaders_changed(self) -> None:
        for listener in self._listeners.values():
            listener.has_news.set()

    # Who has heard of it

    @property
    def have_all_begun(self) -> bool:
        """Whether every other worker has heard everything once, since this one leads."""
        return self.have_all_heard(0)

    def have_all_heard(self, change: int) -> bool:
        return all(self._has_worked_in(node_id, change) for node_id in self._node_ids)

    async def until_heard(self, change: int | None = None) -> None:
        """Until all who live have worked in what has changed by now, or for a while."""
        change = self.last_change if change is None else change
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_S_MAX):
                while not all(
                    self._has_worked_in(node_id, change) or not self._is_live(node_id)
                    for node_id in self._node_ids
                ):
                    await self._until_somebody_has()

    async def until_all_have_begun(self) -> None:
        """Or for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_S_MAX):
                while not self.have_all_begun:
                    await self._until_somebody_has()

    async def _until_somebody_has(self) -> None:
        # Those who fall silent are not told of by anybody.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._has_heard.wait()

    def _has_worked_in(self, node_id: int, change: int) -> bool:
        listener = self._listeners.get(node_id)
        return listener is not None and listener.heard is not None and listener.heard >= change

    def _is_live(self, node_id: int) -> bool:
        listener = self._listeners.get(node_id)
        if listener is None:
            return False
        return listener.is_asking or self._now_s() - listener.asked_s < LIVE_S

    # Telling

    async def answer(self, follow: Follow) -> AnyAnswer:
        controller = self._controller
        if controller is None:
            return Refused("the topics are not led here", is_final=False)
        listener = self._listener(follow, controller)
        listener.is_asking = True
        try:
            if not listener.untold and listener.told:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(NEWS_S_MAX):
                        await listener.has_news.wait()
            if self._listeners.get(follow.node_id) is not listener:
                return Refused("this worker asks anew by now", is_final=False)
            told = self._news(listener, controller)
            await controller.until_durable()
        finally:
            listener.is_asking = False
            listener.asked_s = self._now_s()
        return told

    def _listener(self, follow: Follow, controller: Lane) -> _Listener:
        listener = self._listeners.get(follow.node_id)
        if (
            listener is None
            or listener.telling != follow.telling
            or listener.told != follow.heard
            or listener.is_asking
        ):
            view = controller.view
            untold: list[About] = [(Subject.TOPIC, topic.name) for topic in view.catalogue]
            untold += [(Subject.BROKER, name) for name in view.broker_config_names]
            untold += [(Subject.USER, name) for name in view.access.users]
            untold += [(Subject.RULE, rule) for rule in view.access.access_list]
            untold += [(Subject.QUOTAS, entity) for entity in view.access.quotas]
            telling = self._randomness.token_bytes(TELLING_SIZE)
            listener = _Listener(telling, untold, self._now_s())
            self._listeners[follow.node_id] = listener
        elif listener.heard != listener.offered:
            listener.heard = listener.offered
            self._has_heard.set()
            self._has_heard.clear()
        return listener

    def _news(self, listener: _Listener, controller: Lane) -> Told:
        listener.has_news.clear()
        view = controller.view
        users, access_list, quotas = view.access
        news: list[AnyNews] = []
        for key in [*islice(listener.untold, AT_ONCE)]:
            del listener.untold[key]
            subject, name = key
            if isinstance(name, Rule):
                news.append(RuleTold(name.stored(), name in access_list))
                continue
            if isinstance(name, Entity):
                news.append(QuotasTold(*name, dict(quotas.of(name))))
                continue
            if subject is Subject.BROKER:
                news.append(BrokerTold(name, dict(view.broker_config(name))))
                continue
            if subject is Subject.USER:
                news.append(UserTold(name, [(*each,) for each in users.of(name).values()]))
                continue
            topic = view.catalogue.get(name)
            news.append(
                TopicGone(name)
                if topic is None
                else TopicTold(
                    name,
                    topic.topic_id,
                    dict(topic.config),
                    topic.partition_count,
                    topic.first_lane,
                    topic.lane_count,
                )
            )
        listener.told += 1
        is_all = not listener.untold
        if is_all:
            listener.offered = self.last_change
        return Told(
            listener.telling,
            listener.told,
            news,
            is_all,
            self._leaders(),
            view.cluster_id,
            users.salt_key,
        )
