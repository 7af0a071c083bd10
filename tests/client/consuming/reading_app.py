"""A process that reads as a member of a group until it is killed: `servers topic group`."""

import sys

from semel import Consumer


def main(servers: str, topic: str, group: str) -> None:
    with Consumer(
        servers,
        group,
        session_timeout_ms=1_000,
        heartbeat_interval_ms=100,
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe(topic)
        for count, record in enumerate(consumer, start=1):
            # First told and then committed, so that nothing is committed that nobody heard of.
            # Written in one piece, lest a kill leaves half a line.
            sys.stdout.write(f"{record.partition} {record.offset}\n")
            sys.stdout.flush()
            if count % 10 == 0:
                consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
