"""A consumer while its broker is killed and comes back."""

from pathlib import Path

import pytest

import semel
from semel.errors import RequestError
from semel.testing import Broker
from semel.types import TopicPartition


@pytest.mark.parametrize("is_member", [False, True])
def test_a_consumer_reads_on_over_kills_of_its_broker(tmp_path: Path, is_member: bool) -> None:
    goal = 2_000
    with (
        Broker(data=tmp_path / "data", settings={"num.partitions": 2}) as broker,
        semel.Producer(broker.bootstrap_servers, linger_ms=1, batch_size_max=200) as producer,
        semel.Consumer(
            broker.bootstrap_servers,
            "readers" if is_member else None,
            heartbeat_interval_ms=100,
            fetch_wait_ms_max=50,
        ) as consumer,
    ):
        producer.send("t", b"0", partition=0).result(30)
        producer.send("t", b"0", partition=1).result(30)
        if is_member:
            consumer.subscribe("t")
        else:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        for number in range(1, goal):
            producer.send("t", str(number), partition=0)
            producer.send("t", str(number), partition=1)
        seen: list[list[int]] = [[], []]
        kills = 0
        while min(map(len, seen)) < goal:
            for record in consumer.poll(1_000, 50):
                seen[record.partition].append(int(record.value))
            if sum(map(len, seen)) > 600 * (kills + 1) and kills < 4:
                kills += 1
                broker.kill()
                broker.start()
        assert seen == [list(range(goal)), list(range(goal))]
        assert kills == 4
        if is_member:
            consumer.commit()
            assert set(consumer.committed().values()) == {goal}


def test_a_consumer_whose_broker_is_gone_gives_up_in_time() -> None:
    with Broker() as broker:
        consumer = semel.Consumer(
            broker.bootstrap_servers,
            "readers",
            request_timeout_ms=300,
            block_timeout_ms=300,
            heartbeat_interval_ms=100,
        )
        with semel.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"0").result(30)
        consumer.subscribe("t")
        assert len(consumer.poll(30_000)) == 1
        broker.kill()
        # Nobody is there, which may pass; so that this is no error.
        assert consumer.poll(200) == []
        with pytest.raises(RequestError):
            consumer.commit()
        consumer.close()
