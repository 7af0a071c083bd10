"""Write a few records and read them back in a group, with confluent-kafka and an embedded broker.

    python -m examples.produce_and_consume

Against a broker that runs already: python -m examples.produce_and_consume 127.0.0.1:9092
"""

import sys

from confluent_kafka import Consumer, Producer

from semel.testing import Broker

TOPIC = "greetings"
GREETINGS = {"la": "salve", "el": "chaire", "en": "hail"}


def main(bootstrap_servers: str) -> dict[str, str]:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    for language, greeting in GREETINGS.items():
        producer.produce(TOPIC, greeting.encode(), key=language.encode())
    producer.flush()

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    read: dict[str, str] = {}
    while len(read) < len(GREETINGS):
        message = consumer.poll(1)
        if message is None or message.error():
            continue
        read[message.key().decode()] = message.value().decode()
        print(f"{message.topic()}[{message.partition()}]@{message.offset()}: {message.value()!r}")
    consumer.close()
    return read


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with Broker() as broker:
            main(broker.bootstrap_servers)
