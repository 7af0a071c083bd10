"""An application that copies a topic exactly once: reads, writes and commits in one transaction.

Started as a process of its own: `copying_app.py SERVERS SOURCE TARGET`. Any error ends it, as a
crash would, and whoever started it starts it again.
"""

import sys

import confluent_kafka

BATCH_COUNT_MAX = 20
CALL_S_MAX = 60
PATIENT = {"metadata.recovery.strategy": "none", "reconnect.backoff.max.ms": 500, "log_level": 0}


def main(servers: str, source: str, target: str) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "copiers",
            "group.instance.id": "the-only-one",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            **PATIENT,
        }
    )
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": "copier", "linger.ms": 0, **PATIENT}
    )
    producer.init_transactions(CALL_S_MAX)
    consumer.subscribe([source])
    while True:
        messages = consumer.consume(BATCH_COUNT_MAX, 0.05)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            if message.error() is not None:
                raise confluent_kafka.KafkaException(message.error())
            producer.produce(target, message.value(), partition=message.partition())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()),
            consumer.consumer_group_metadata(),
            CALL_S_MAX,
        )
        producer.commit_transaction(CALL_S_MAX)


if __name__ == "__main__":
    main(*sys.argv[1:])
