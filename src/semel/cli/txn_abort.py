"""`semel txn abort`: end a transaction for a producer that does not."""

from typing import Annotated

from cyclopts import Parameter

from semel.cli.arguments import DEFAULT_TARGET, Target
from semel.cli.numbers import whole_number
from semel.cli.output import say, say_json
from semel.client.admin import transactions
from semel.client.admin.hanging import descriptions_by_producer
from semel.client.admin.transactions import ActiveProducer
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, InvalidTransactionState
from semel.types import TopicPartition


def abort(
    transactional_id: str | None = None,
    /,
    *,
    topic: Annotated[str | None, Parameter(name=["-t", "--topic"])] = None,
    partition: Annotated[
        int | None, Parameter(converter=whole_number, name=["-p", "--partition"])
    ] = None,
    start_offset: Annotated[
        int | None,
        Parameter(
            converter=whole_number, help="Where the hanging transaction begins in the partition."
        ),
    ] = None,
    producer_id: Annotated[
        int | None,
        Parameter(converter=whole_number, help="Whose it is, instead of where it begins."),
    ] = None,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Abort the transaction of an id, or a hanging one in a single partition.

    The producer of TRANSACTIONAL-ID is shut out, and its coordinator aborts in all partitions. A
    transaction that hangs in a partition, as `semel txn hanging` finds them, is named by --topic,
    --partition and --start-offset or --producer-id.
    """
    if transactional_id is not None:
        if (topic, partition, start_offset, producer_id) != (None, None, None, None):
            raise ConfigError("give a transactional id or a place in a partition, not both")
        return _abort_id(target, transactional_id)
    if topic is None or partition is None or (start_offset is None) == (producer_id is None):
        raise ConfigError(
            "give a transactional id, or --topic and --partition with --start-offset or"
            " --producer-id"
        )
    return _abort_hanging(target, TopicPartition(topic, partition), start_offset, producer_id)


def _abort_id(target: Target, transactional_id: str) -> int:
    before = target.run(lambda cluster: transactions.abort(cluster, transactional_id))
    if target.as_json:
        say_json(
            {
                "transactional_id": transactional_id,
                "producer_id": before.producer_id,
                "producer_epoch": before.producer_epoch,
                "partitions": [list(partition) for partition in sorted(before.partitions)],
            }
        )
    else:
        partitions = ", ".join(map(str, sorted(before.partitions)))
        say(
            f"aborted the transaction of {transactional_id} in {partitions};"
            f" producer {before.producer_id} of epoch {before.producer_epoch} is shut out"
        )
    return 0


def _abort_hanging(
    target: Target, partition: TopicPartition, start_offset: int | None, producer_id: int | None
) -> int:
    async def work(cluster: Cluster) -> ActiveProducer:
        open_here = [
            producer
            for producer in await transactions.active_producers(cluster, [partition])
            if producer.first_offset is not None
            and (producer.first_offset == start_offset or producer.producer_id == producer_id)
        ]
        if not open_here:
            wanted = (
                f"begins at offset {start_offset}"
                if producer_id is None
                else f"is of producer {producer_id}"
            )
            raise InvalidTransactionState(f"no open transaction in {partition} {wanted}")
        (producer,) = open_here
        known = (await descriptions_by_producer(cluster, open_here)).get(producer.producer_id)
        if known is not None and known.is_open and partition in known.partitions:
            raise InvalidTransactionState(
                f"it is part of a transaction of {known.transactional_id}, which is {known.state}:"
                f" abort all of it, with `semel txn abort {known.transactional_id}`"
            )
        await transactions.abort_in_partition(cluster, producer)
        return producer

    producer = target.run(work)
    if target.as_json:
        say_json(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "first_offset": producer.first_offset,
            }
        )
    else:
        say(
            f"aborted what producer {producer.producer_id} has had open in {partition}"
            f" since offset {producer.first_offset}"
        )
    return 0
