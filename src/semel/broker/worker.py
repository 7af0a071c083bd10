"""A broker that leads some lanes of a folder, beside others on this machine that lead the rest.

Worker 1 leads lane 0, and tells the others of topics and settings. They follow what it says, and
serve nobody before they know all of it: a name must not lead to what a deleted topic has left. Who
leads which lane never changes; a worker that died is started again and goes on where it was.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from semel.access.access_list import AccessList
from semel.access.access_view import AccessView
from semel.access.quotas import Entity, Quotas
from semel.access.rules import Rule
from semel.access.users import Users
from semel.broker import log
from semel.broker.broker import Broker
from semel.broker.led_lanes import CONTROLLER
from semel.broker.lines import Asking
from semel.broker.neighbour import Neighbour
from semel.broker.telling import NEWS_S_MAX, Telling
from semel.cluster.channel import NodeAway
from semel.cluster.desk import Desk
from semel.cluster.keys import KnownKey
from semel.cluster.messages import (
    AnyAnswer,
    AnyRequest,
    BrokerTold,
    Follow,
    Forwarded,
    LaneCall,
    QuotasTold,
    Refused,
    RuleTold,
    Told,
    TopicGone,
    TopicTold,
    UserTold,
    credentials_of,
)
from semel.errors import JournalFull
from semel.lane.leader import LedBy
from semel.lane.told_catalogue import ToldCatalogue
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Term
from semel.world import Randomness

PATIENCE_S: Final = 3.0
"""So long an answer may take that waits for nothing."""
PAUSE_S: Final = 0.2
UNKNOWN_EPOCH: Final = Term(-1)
"""As clients are told who know none."""


class Worker:
    def __init__(
        self,
        broker: Broker,
        own_id: int,
        leaders: Sequence[Neighbour],
        key: KnownKey,
        randomness: Randomness,
    ) -> None:
        """`leaders` are those of the lanes, in the order of their numbers."""
        self._broker = broker
        self._own_id = own_id
        self._leaders = leaders
        self._randomness = randomness
        self._epochs: dict[int, Term] = {}
        """Of the lanes whose leaders have said them."""
        self._settings: dict[str, dict[str, str]] = {}
        self._catalogue = ToldCatalogue()
        self._users = Users()
        self._access_list = AccessList()
        self._quotas = Quotas()
        self._is_beginning = True
        """What is heard is not all yet."""
        self._telling = b""
        self._heard = 0
        self.may_serve = asyncio.Event()
        self.knows_all = asyncio.Event()
        """The epoch of every lane as well."""
        broker.host.node = Desk(key, randomness, self.answer)

    def begin(self, tasks: asyncio.TaskGroup, lines: Asking) -> None:
        """Once the broker has started."""
        broker = self._broker
        broker.peers.lines = lines
        self._hear_of_lanes({})
        lanes = broker.lanes
        if lanes.leads_catalogue:
            others = {each.node_id for each in self._leaders} - {self._own_id}
            telling = Telling(
                sorted(others),
                self._randomness,
                self._known_leaders,
                asyncio.get_running_loop().time,
            )
            telling.lead(lanes.controller)
            broker.topics.telling = telling
            # Others cannot make them when the first group or transaction comes. Without room this
            # one still tries then.
            with contextlib.suppress(JournalFull):
                for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
                    broker.coordinators.internal_topic(name)
            self.may_serve.set()
        else:
            tasks.create_task(self._follow(lines))

    # What others ask

    async def answer(self, request: AnyRequest) -> AnyAnswer:
        if isinstance(request, LaneCall):
            if not self.may_serve.is_set():
                return Refused("this worker has not heard of all topics yet", is_final=False)
            return await self._broker.peers.answer(request)
        if isinstance(request, Forwarded):
            return await self._broker.host.answer_forwarded(request)
        telling = self._broker.topics.telling
        if isinstance(request, Follow) and isinstance(telling, Telling):
            self._hear_of_lanes({number: Term(epoch) for number, epoch in request.lanes})
            return await telling.answer(request)
        return Refused("a worker does not answer such calls", is_final=False)

    # Who leads

    def _hear_of_lanes(self, epochs: dict[int, Term]) -> None:
        broker = self._broker
        known = self._epochs | epochs
        known |= {number: lane.view.epoch for number, lane in broker.lanes.by_number.items()}
        if known == self._epochs:
            return
        self._epochs = known
        broker.elsewhere.hear_of_lanes(
            {
                number: LedBy(
                    known.get(number, UNKNOWN_EPOCH), leader.node_id, leader.host, leader.port
                )
                for number, leader in enumerate(self._leaders)
            }
        )
        if isinstance(broker.topics.telling, Telling):
            broker.topics.telling.leaders_changed()
        if len(known) == len(self._leaders):
            self.knows_all.set()

    def _known_leaders(self) -> list[tuple[int, int, int]]:
        return [
            (number, epoch, self._leaders[number].node_id)
            for number, epoch in sorted(self._epochs.items())
        ]

    # Following

    async def _follow(self, lines: Asking) -> None:
        controller = self._leaders[CONTROLLER]
        address = controller.host, controller.port
        while True:
            lanes = [(lane.number, lane.view.epoch) for lane in self._broker.lanes.led]
            follow = Follow(self._own_id, self._telling, self._heard, lanes)
            begun_s = asyncio.get_running_loop().time()
            try:
                told = await lines.ask(address, follow, NEWS_S_MAX + PATIENCE_S)
            except NodeAway:
                told = Refused("it does not answer")
            if isinstance(told, Told):
                await self._work_in_somehow(told)
                if told.is_all:
                    self._broker.host.heard_all(begun_s)
            else:
                await asyncio.sleep(PAUSE_S)

    async def _work_in_somehow(self, told: Told) -> None:
        """A lane without room must not serve what is gone, and says so until it has some."""
        is_said = False
        while True:
            try:
                self._work_in(told)
            except JournalFull as error:
                if not is_said:
                    log.warning("what is new of topics waits for room", reason=str(error))
                    is_said = True
                await asyncio.sleep(1)
            else:
                return

    def _work_in(self, told: Told) -> None:
        """May be done again. Raises JournalFull."""
        broker, topics = self._broker, self._broker.topics
        if told.number == 1 and told.telling != self._telling:
            self._telling = told.telling
            self._catalogue = ToldCatalogue()
            self._users = Users()
            self._access_list = AccessList()
            self._quotas = Quotas()
            self._is_beginning = True
        catalogue = self._catalogue
        has_settings = False
        for each in told.news:
            match each:
                case TopicTold():
                    topic = catalogue.tell(
                        each.name,
                        each.topic_id,
                        each.config,
                        each.partition_count,
                        each.first_lane,
                        each.lane_count,
                    )
                    if not self._is_beginning:
                        topics.hear_of(topic)
                case TopicGone():
                    catalogue.forget(each.name)
                    if not self._is_beginning:
                        topics.drop(each.name)
                case UserTold() | RuleTold() | QuotasTold():
                    self._hear_of_access(each)
                case BrokerTold():
                    self._settings[each.name] = each.config
                    has_settings = True
        if told.salt_key != self._users.salt_key:
            self._users.draw(told.salt_key)
        if has_settings:
            broker.settings.recall(lambda name: self._settings.get(name, {}))
        broker.hear_of_cluster(told.cluster_id)
        self._hear_of_lanes({number: Term(epoch) for number, epoch, _ in told.lanes})
        if told.is_all and self._is_beginning:
            topics.align_all(catalogue)
            broker.lanes.tell_of(
                catalogue, AccessView(self._users, self._access_list, self._quotas)
            )
            self._is_beginning = False
            self.may_serve.set()
        broker.settings.look_at_quotas()
        self._heard = told.number

    def _hear_of_access(self, news: UserTold | RuleTold | QuotasTold) -> None:
        match news:
            case UserTold():
                self._users.tell(news.name, credentials_of(news.credentials))
            case RuleTold():
                tell = self._access_list.add if news.is_there else self._access_list.remove
                tell([Rule.of_stored(news.rule)])
            case QuotasTold():
                self._quotas.tell(Entity(news.user, news.client_id, news.ip), news.values)
