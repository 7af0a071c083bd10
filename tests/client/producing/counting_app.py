"""An application that counts: each transaction writes the next numbers and where it has come to.

`python counting_app.py SERVERS TOPIC GROUP ENOUGH` goes on from the group's committed offset, as
the process before it would have, and says each number up to which it knows all to be committed.
"""

import asyncio
import sys

from semel import Producer
from semel.client.admin.groups import committed_offsets
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.types import TopicPartition

NUMBERS_PER_TRANSACTION = 3


def main(servers: str, topic: str, group: str, enough: int) -> None:
    place = TopicPartition(topic, 0)
    with Producer(servers, transactional_id=group) as producer:
        # Nothing of an earlier process can change the offset from here on.
        producer.init_transactions()
        number = asyncio.run(_committed(servers, group)).get(place, 0)
        _say(number)
        while number < enough:
            with producer.transaction():
                for _ in range(NUMBERS_PER_TRANSACTION):
                    producer.send(topic, str(number))
                    number += 1
                producer.send_offsets_to_transaction({place: number}, group)
            _say(number)


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


async def _committed(servers: str, group: str) -> dict[TopicPartition, int]:
    async with Cluster(parse_bootstrap_servers(servers)) as cluster:
        return await committed_offsets(cluster, group)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
