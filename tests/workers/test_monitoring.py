"""Each worker shows its own part; how far a group is behind is asked of those who know."""

import re
import time
import urllib.request

import confluent_kafka
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from semel.testing import Broker
from support.clients import QUIET
from support.raw_client import METRICS

PATIENCE_S = 60.0
TERM = r'^semel_lane_term\{lane="(\d)"\} 0.0$'
LAG = re.compile(r'^semel_group_lag\{group="slow",topic="t"\} (\S+)$', re.MULTILINE)


def pages(broker: Broker) -> list[str]:
    addresses = re.findall(r"http://[0-9.:]+/metrics", broker.complaints())
    found = []
    for address in addresses:
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as page:
            found.append(page.read().decode())
    return found


def test_a_groups_lag_has_the_partitions_of_all_workers() -> None:
    settings = {"metrics.interval.ms": 100}
    with Broker(workers=2, arguments=METRICS, settings=settings) as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers, **QUIET}
        admin = AdminClient(client)
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(PATIENCE_S)
        producer = Producer(client)
        for partition in range(4):
            for value in (b"read", b"unread"):
                producer.produce("t", value, partition=partition)
        producer.flush()
        consumer = confluent_kafka.Consumer({"group.id": "slow", **client})
        consumer.commit(
            offsets=[TopicPartition("t", partition, 1) for partition in range(4)],
            asynchronous=False,
        )
        consumer.close()
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            told = pages(broker)
            assert len(told) == 2
            lags = [float(lag) for page in told for lag in LAG.findall(page)]
            if lags == [4.0]:
                break
            assert time.monotonic() < deadline_s, lags
        stored = [
            re.findall(r"^semel_topic_records_in_total.* (\S+)$", page, re.MULTILINE)
            for page in told
        ]
        assert stored == [["4.0"], ["4.0"]]
        terms = [re.findall(TERM, page, re.MULTILINE) for page in told]
        assert sorted(terms) == [["0"], ["1"]]
