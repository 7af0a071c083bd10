"""Asks nodes, leaders and those who take themselves for one, where logs and groups are."""

from typing import Final

from chaos.confluent import Copier
from chaos.scene import PARTITION_COUNTS, PLAIN, Client, Scene
from chaos.subject import Host
from semel.errors import NONE
from semel.testing.asking import NoAnswer, ask
from semel.types import TopicPartition
from semel.verify.judging.operations import EndRead, OffsetRead
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

ASKED_S_MAX: Final = 8.0
"""Longer than a node is frozen, so that the answers of one that wakes up count."""
LATEST: Final = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Watcher(Client):
    """Of one node, past its proxy: also when it is cut off from its clients."""

    def __init__(self, host: Host, scene: Scene, seed: int) -> None:
        super().__init__(f"watcher-{host.node_id}", scene, seed)
        self._host = host

    def turn(self) -> None:
        try:
            if self.random.randrange(2):
                self._ask_end(*self.pick(tuple(PARTITION_COUNTS)))
            else:
                self._ask_offset(*self.pick((PLAIN,)))
        except NoAnswer:
            self.scene.stopping.wait(0.1)
        self.scene.stopping.wait(0.05)

    def _ask_end(self, topic: str, partition: int) -> None:
        isolation = self.random.choice((READ_UNCOMMITTED, READ_COMMITTED))
        wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=LATEST)])
        request = ListOffsetsRequest(isolation_level=isolation, topics=[wanted])
        began_s = self.scene.now_s()
        told = ask(("127.0.0.1", self._host.port), "ListOffsets", 7, request, ASKED_S_MAX)
        found = told.topics[0].partitions[0]
        if found.error_code == NONE:
            self.scene.note(
                EndRead(
                    self.scene.since(began_s),
                    TopicPartition(topic, partition),
                    found.offset,
                    isolation == READ_COMMITTED,
                    str(self._host.node_id),
                )
            )
            self.done_count += 1

    def _ask_offset(self, topic: str, partition: int) -> None:
        wanted = OffsetFetchRequestTopics(topic, [partition])
        group = OffsetFetchRequestGroup(Copier.group, topics=[wanted])
        request = OffsetFetchRequest([group], require_stable=True)
        began_s = self.scene.now_s()
        told = ask(("127.0.0.1", self._host.port), "OffsetFetch", 8, request, ASKED_S_MAX)
        group_told = told.groups[0]
        if group_told.error_code != NONE:
            return
        found = group_told.topics[0].partitions[0]
        if found.error_code == NONE:
            self.scene.note(
                OffsetRead(
                    self.scene.since(began_s),
                    Copier.group,
                    TopicPartition(topic, partition),
                    max(0, found.committed_offset),
                    str(self._host.node_id),
                )
            )
            self.done_count += 1
