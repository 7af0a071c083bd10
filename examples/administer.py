"""Create a topic, fill it, let a group read it, and let the group read it again from a moment on.

    python -m examples.administer

Against a cluster that runs already, which may want TLS and a sign-in:

    python -m examples.administer kafka.example.com:9093 security.protocol=SASL_SSL \
        sasl.mechanism=SCRAM-SHA-512 sasl.username=ana 'sasl.password=${env:KAFKA_PASSWORD}'
"""

import sys

import semel
from semel.testing import Broker

TOPIC = "examples-trades"
GROUP = "examples-traders"


def main(bootstrap_servers: str, security: dict[str, str] | None = None) -> list[str]:
    """What the group reads at last."""
    secured = security or {}
    with semel.Admin(bootstrap_servers, security=secured) as admin:
        admin.delete_topics(TOPIC, missing_ok=True)
        admin.create_topics(TOPIC, partitions=1, configs={"retention.ms": -1})
        with semel.Producer(bootstrap_servers, security=secured) as producer:
            for minute in range(5):
                producer.send(TOPIC, f"trade {minute}", timestamp_ms=60_000 * minute)
        read_all(bootstrap_servers, secured)

        admin.set_offsets(GROUP, admin.offsets_at(TOPIC, 180_000))
        for partition, lag in admin.lag(GROUP).items():
            print(f"{GROUP} is {lag.lag} records behind in {partition}")
        return read_all(bootstrap_servers, secured)


def read_all(bootstrap_servers: str, security: dict[str, str]) -> list[str]:
    values: list[str] = []
    with semel.Consumer(bootstrap_servers, GROUP, value=str, security=security) as consumer:
        consumer.subscribe(TOPIC)
        while not consumer.assignment or any(consumer.lag().values()):
            values += [record.value for record in consumer.poll()]
    print(f"read {values}")
    return values


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:]))
    else:
        with Broker() as broker:
            main(broker.bootstrap_servers)
