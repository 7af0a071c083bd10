"""A test that needs Kafka and no container: the fixtures `semel_broker` and `semel_topics`, which
come with the package.

pytest examples/embedded_in_pytest.py
"""

from confluent_kafka import Consumer, Producer

from semel.testing import Broker, Topics


def test_an_order_is_forwarded(semel_broker: Broker, semel_topics: Topics) -> None:
    orders = semel_topics("orders")  # A topic that no other test has.
    servers = {"bootstrap.servers": semel_broker.bootstrap_servers}
    producer = Producer(servers)
    producer.produce(orders, b"two apples")
    assert producer.flush(10) == 0

    consumer = Consumer({**servers, "group.id": "kitchen", "auto.offset.reset": "earliest"})
    consumer.subscribe([orders])
    message = consumer.poll(10)
    consumer.close()
    assert message is not None
    assert message.value() == b"two apples"


def test_a_broker_of_ones_own_with_settings_of_ones_own() -> None:
    with Broker(settings={"num.partitions": 4}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        assert len(producer.list_topics("orders", 10).topics["orders"].partitions) == 4
