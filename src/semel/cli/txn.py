"""`semel txn`: list and describe transactions, abort them, find hanging ones, tell their story."""

from enum import Enum
from typing import Annotated, NamedTuple

from cyclopts import App, Parameter

from semel.cli.arguments import DEFAULT_TARGET, Target, chosen_topics
from semel.cli.numbers import whole_number
from semel.cli.output import say, say_each, say_fields, say_heading, say_json, say_table
from semel.cli.times import duration_in_words, moment_in_words, parse_duration_ms
from semel.cli.txn_abort import abort
from semel.cli.txn_timeline import timeline
from semel.client.admin import transactions
from semel.client.admin.hanging import Hanging, find_hanging
from semel.client.admin.transactions import OPEN_STATES, TransactionDescription, TransactionListing
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.transactions.transaction import Status
from semel.types import TopicPartition
from semel.world import SystemClock

app = App(name="txn", help="List and describe transactions, abort them, find hanging ones.")


def hanging(
    *topics: str,
    partition: Annotated[
        int | None,
        Parameter(
            converter=whole_number, name=["-p", "--partition"], help="Only this one of the topics."
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Find transactions that are open in TOPICS, or anywhere, and that no coordinator will end."""
    if partition is not None and not topics:
        raise ConfigError("--partition is one of a topic: name the topic")

    async def work(cluster: Cluster) -> list[Hanging]:
        described = (
            await chosen_topics(cluster, topics) if topics else (await cluster.describe()).topics
        )
        partitions = [
            each
            for topic in described.values()
            for each in topic.topic_partitions
            if partition is None or each.partition == partition
        ]
        if topics and not partitions:
            raise UnknownTopicOrPartition(f"there is no partition {partition} in these topics")
        return await find_hanging(cluster, partitions, SystemClock().wall_ms())

    found = target.run(work)
    if target.as_json:
        say_json([_hanging_as_json(one) for one in found])
    else:
        rows = [
            (
                *one.producer.partition,
                one.producer.producer_id,
                one.producer.producer_epoch,
                one.producer.first_offset,
                moment_in_words(one.producer.active_at_ms),
                one.transactional_id,
                one.reason.value,
            )
            for one in found
        ]
        columns = "TOPIC PARTITION PRODUCER EPOCH FIRST-OFFSET LAST-WRITE TRANSACTIONAL-ID REASON"
        say_table(columns.split(), rows)
    return 0


def _hanging_as_json(one: Hanging) -> dict[str, object]:
    producer = one.producer
    return {
        "topic": producer.partition.topic,
        "partition": producer.partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "first_offset": producer.first_offset,
        "active_at_ms": producer.active_at_ms,
        "transactional_id": one.transactional_id,
        "reason": one.reason.name.lower(),
    }


app.command(abort)
app.command(hanging)
app.command(timeline)


class StateName(Enum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare-commit"
    PREPARE_ABORT = "prepare-abort"
    COMPLETE_COMMIT = "complete-commit"
    COMPLETE_ABORT = "complete-abort"


class _Listed(NamedTuple):
    listing: TransactionListing
    age_ms: int | None
    """How long it has been open, if it is."""


@app.command(name="list")
def list_transactions(
    *,
    state: Annotated[
        tuple[StateName, ...],
        Parameter(name=["-s", "--state"], negative="", help="Only these states; repeatable."),
    ] = (),
    longer_than: Annotated[
        str | None,
        Parameter(help="Only those open for longer than this, as 500ms, 30s, 5m, 2h or 1d."),
    ] = None,
    target: Target = DEFAULT_TARGET,
) -> int:
    """List transactional ids, and how long each has had a transaction open."""
    longer_than_ms = None if longer_than is None else parse_duration_ms(longer_than)
    if longer_than is not None and longer_than_ms is None:
        raise ConfigError(f"{longer_than!r} is not a duration: give a number with ms, s, m, h or d")
    states = {Status[name.name].label for name in state}
    if longer_than_ms is not None:
        # A filter of the cluster's own would let pass those that have nothing open.
        states = states & OPEN_STATES if states else set(OPEN_STATES)

    async def work(cluster: Cluster) -> list[_Listed]:
        if longer_than_ms is not None and not states:
            return []
        return await _list(cluster, states)

    listed = [
        one
        for one in target.run(work)
        if longer_than_ms is None or (one.age_ms is not None and one.age_ms > longer_than_ms)
    ]
    if target.as_json:
        say_json([{**listing._asdict(), "age_ms": age_ms} for listing, age_ms in listed])
    else:
        rows = [
            (
                listing.transactional_id,
                listing.state,
                listing.producer_id,
                listing.coordinator_id,
                None if age_ms is None else duration_in_words(age_ms),
            )
            for listing, age_ms in listed
        ]
        say_table(["TRANSACTIONAL-ID", "STATE", "PRODUCER", "COORDINATOR", "OPEN-FOR"], rows)
    return 0


async def _list(cluster: Cluster, states: set[str]) -> list[_Listed]:
    listings = await transactions.list_all(cluster, states=states)
    is_open = [listing for listing in listings if listing.is_open]
    described = await transactions.describe_listed(cluster, is_open)
    now_ms = SystemClock().wall_ms()
    return [
        _Listed(listing, _age_ms(described.get(listing.transactional_id), now_ms))
        for listing in listings
    ]


def _age_ms(described: TransactionDescription | None, now_ms: int) -> int | None:
    if described is None or not described.is_open or described.started_at_ms is None:
        return None
    return max(now_ms - described.started_at_ms, 0)


@app.command
def describe(transactional_id: str, /, *more: str, target: Target = DEFAULT_TARGET) -> int:
    """Show transactional ids: state, age, and where their transactions began."""

    async def work(cluster: Cluster) -> list[_Described]:
        return [await _describe(cluster, each) for each in (transactional_id, *more)]

    return say_each(target.run(work), _say_described, _as_json, as_json=target.as_json)


class _Described(NamedTuple):
    description: TransactionDescription
    age_ms: int | None
    first_offsets: dict[TopicPartition, int | None]


async def _describe(cluster: Cluster, transactional_id: str) -> _Described:
    description = await transactions.describe(cluster, transactional_id)
    first_offsets: dict[TopicPartition, int | None] = dict.fromkeys(sorted(description.partitions))
    there = await cluster.existing(description.partitions)
    for producer in await transactions.active_producers(cluster, there):
        if producer.producer_id == description.producer_id:
            first_offsets[producer.partition] = producer.first_offset
    return _Described(description, _age_ms(description, SystemClock().wall_ms()), first_offsets)


def _say_described(one: _Described) -> None:
    description = one.description
    started_at_ms = description.started_at_ms
    say_heading(description.transactional_id)
    say_fields(
        {
            "state": description.state,
            "coordinator": description.coordinator_id,
            "producer": description.producer_id,
            "epoch": description.producer_epoch,
            "timeout": duration_in_words(description.timeout_ms),
            "started": None if started_at_ms is None else moment_in_words(started_at_ms),
            "open for": None if one.age_ms is None else duration_in_words(one.age_ms),
        }
    )
    if one.first_offsets:
        say("")
        rows = [(*partition, offset) for partition, offset in one.first_offsets.items()]
        say_table(("TOPIC", "PARTITION", "FIRST-OFFSET"), rows)


def _as_json(one: _Described) -> dict[str, object]:
    return {
        **one.description._asdict(),
        "age_ms": one.age_ms,
        "partitions": [
            {"topic": topic, "partition": partition, "first_offset": offset}
            for (topic, partition), offset in one.first_offsets.items()
        ],
    }
