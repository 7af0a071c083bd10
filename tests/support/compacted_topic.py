"""A broker whose topic `t` is a log as compaction leaves it, for readers of every kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from semel.broker.broker import Broker
from semel.types import Offset, ProducerId, TopicPartition
from support import topics
from support.broker_in_thread import BrokerInThread
from support.compacted_log import batch_of, compacted_log
from support.inside import state_of, store

PLACE = TopicPartition("t", 0)
LOG = compacted_log()

WITH_MARKERS = TopicPartition("with-markers", 0)
"""The same log, but that no marker was emptied: not every client can read on behind such."""

HELD_UP = TopicPartition("held-up", 0)
HELD_UP_AT = 20
"""Its last stable offset: a gap from 10 on, and behind it a transaction that is open."""

_DEADLINE_S = 60


@contextmanager
def compacted_topics(folder: Path) -> Iterator[BrokerInThread]:
    with BrokerInThread(folder) as broker:
        servers = broker.bootstrap_servers
        for place in (PLACE, WITH_MARKERS, HELD_UP):
            topics.create(servers, place.topic)
        broker.do(_fill)
        for place in (PLACE, WITH_MARKERS):
            delete_before(servers, place, LOG.start)
        yield broker


def _fill(broker: Broker) -> None:
    store(broker, PLACE, LOG.batches, LOG.aborted)
    store(broker, WITH_MARKERS, compacted_log(has_empty_markers=False).batches, LOG.aborted)
    store(broker, HELD_UP, [batch_of(0, 9)], ())
    partition = state_of(broker).partition(*HELD_UP)
    assert partition is not None
    partition.transactions.wrote(ProducerId(7), Offset(HELD_UP_AT))
    store(broker, HELD_UP, [batch_of(HELD_UP_AT, 25, producer_id=7)], ())


def delete_before(servers: str, place: TopicPartition, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    wanted = ConfluentPartition(place.topic, place.partition, offset)
    for done in admin.delete_records([wanted]).values():
        done.result(_DEADLINE_S)
