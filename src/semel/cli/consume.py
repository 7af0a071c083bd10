"""`semel consume`: print the records of topics, and wait for more."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Annotated

from cyclopts import Parameter

from semel.cli.arguments import (
    DEFAULT_TARGET,
    PartitionNumbers,
    Target,
    choose_partitions,
    chosen_topics,
    parse_partition_numbers,
    subscription,
)
from semel.cli.main import TERMINATED
from semel.cli.numbers import whole_number
from semel.cli.place import END, START, offsets_of, parse_range
from semel.cli.printout import WAIT_MS, Printout, cancelled_by_sigterm, print_for_group
from semel.cli.record_format import as_json, printer
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, ends_of
from semel.client.consuming.asynchronous import AsyncConsumer
from semel.errors import ConfigError
from semel.types import TopicPartition
from semel.world import SystemClock

_FORMAT_DEFAULT = "%s\\n"
_WAIT_FOR_STOP_MS = 100


class IsolationName(Enum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


def consume(
    topic: str,
    /,
    *topics: str,
    offset: Annotated[
        str,
        Parameter(
            name=["-o", "--offset"],
            help="start, end, N, +N, -N, @TIME, or a range of them as FROM:TO.",
            allow_leading_hyphen=True,
        ),
    ] = "start",
    exit_at_end: Annotated[
        bool,
        Parameter(name=["-e", "--exit-at-end"], negative="", help="Stop at what was the end."),
    ] = False,
    count: Annotated[
        int | None,
        Parameter(
            converter=whole_number, name=["-n", "--count"], help="Stop after this many records."
        ),
    ] = None,
    record_format: Annotated[
        str | None,
        Parameter(
            name=["-f", "--format"],
            help="%t topic, %p partition, %o offset, %T time, %k key, %s value, %h headers.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    partitions: PartitionNumbers = (),
    group: Annotated[
        str | None,
        Parameter(
            name=["-g", "--group"],
            help="Read as a member of this group, and commit what was printed.",
        ),
    ] = None,
    isolation: Annotated[
        IsolationName, Parameter(help="Whether to see transactions that are not committed.")
    ] = IsolationName.READ_COMMITTED,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Print records of topics from the start, and follow them.

    A topic that begins with ^ is a regular expression for names. With --group the group says which
    partitions are read and where it goes on; --offset is then start or end, for partitions of which
    the group has no offset.
    """
    if record_format is not None and target.as_json:
        raise ConfigError("--format and --json exclude each other")
    if count is not None and count < 1:
        raise ConfigError("--count must be at least 1")
    show = as_json if target.as_json else printer(record_format or _FORMAT_DEFAULT)
    begin, stop = parse_range(offset, SystemClock().wall_ms())
    wanted = parse_partition_numbers(partitions)
    if group is not None:
        if not group:
            raise ConfigError("--group is empty: a group has at least one character")
        if wanted:
            raise ConfigError(
                "--group and --partitions exclude each other: a group has its own say"
            )
        if begin not in (START, END) or stop is not None:
            raise ConfigError(
                f"--offset is {offset}: with --group it is start or end, where the group has no"
                " offset; `semel group seek` moves a group"
            )
    reset = "none" if group is None else "earliest" if begin == START else "latest"
    level = Isolation[isolation.name]
    names = (topic, *topics)

    async def work(cluster: Cluster) -> None:
        if group is not None:
            cancelled_by_sigterm()
        read = await choose_partitions(cluster, names, wanted)
        stops: dict[TopicPartition, int] = {}
        if exit_at_end:
            stops = await ends_of(cluster, read, level)
        if stop is not None:
            range_ends = await offsets_of(cluster, stop, read)
            stops = {
                partition: min(range_ends[partition], stops.get(partition, range_ends[partition]))
                for partition in read
            }
        async with AsyncConsumer(
            target.connection.bootstrap_servers,
            group,
            isolation=isolation.value,
            auto_offset_reset=reset,
            request_timeout_ms=target.timeout_ms,
            block_timeout_ms=target.timeout_ms,
            security=target.connection.security,
            client_id=target.connection.client_id,
        ) as consumer:
            printout = Printout(show, stops, count)

            async def check() -> None:
                await cluster.retry(lambda: chosen_topics(cluster, names))

            if group is None:
                starts = await offsets_of(cluster, begin, read)
                await _print_all(consumer, starts, stops, printout, check)
            else:
                await consumer.subscribe(subscription(names))
                await print_for_group(consumer, stops if exit_at_end else None, printout, check)

    try:
        target.run(work)
    except asyncio.CancelledError:
        return TERMINATED
    return 0


async def _print_all(
    consumer: AsyncConsumer,
    starts: Mapping[TopicPartition, int],
    stops: Mapping[TopicPartition, int],
    printout: Printout,
    check: Callable[[], Awaitable[object]],
) -> None:
    left = {
        partition: offset
        for partition, offset in starts.items()
        if partition not in stops or offset < stops[partition]
    }
    consumer.assign(left.keys())
    for partition, offset in left.items():
        consumer.seek(partition, offset)
    # What lies before a stop may be nothing but markers, which no poll gives a sign of.
    wait_ms = _WAIT_FOR_STOP_MS if stops else WAIT_MS
    while left:
        records = await consumer.poll(wait_ms, printout.room)
        printout.write(records)
        if printout.is_full:
            return
        if not records:
            # A consumer waits without end for a cluster or a topic that is gone; a person does not.
            await check()
        moved = {record.topic_partition for record in records} or set(left)
        for partition in moved & stops.keys():
            if await consumer.position(partition) >= stops[partition]:
                del left[partition]
        consumer.assign(left.keys())
