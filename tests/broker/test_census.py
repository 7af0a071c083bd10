"""What metrics show is counted in steps; who asks for it waits for nothing that grows."""

from dataclasses import replace
from random import Random

from semel.broker.broker import Broker
from semel.broker.census import Census
from semel.broker.largest import Largest
from semel.broker.metrics import Collector
from semel.broker.retention import Retention
from semel.groups.commands import NO_MEMBER_ID, CommitOffsets, OffsetToCommit
from semel.lane.group_commands import AskGroups
from semel.lane.topics import CreateTopic
from semel.lane.transactions import Transact
from semel.transactions.commands import AddPartitions, InitProducer
from semel.types import GroupId, TopicPartition, TransactionalId
from support.handled import CONFIG, Machine, on_a
from support.inside import partitions_of, state_of
from support.work import Work, work_of

SHOWN = replace(CONFIG, metrics_labels_max=10)


def fill(broker: Broker, count: int) -> None:
    """So many topics with a partition each that was written to, groups and open transactions."""
    lane = broker.lanes.controller
    for number in range(count):
        topic = f"t{number}"
        broker.topics.create(CreateTopic(topic, 1, {}))
        (partition,) = partitions_of(state_of(broker), topic)
        partition.high_watermark = partition.log_end_offset = type(partition.log_end_offset)(number)
        broker.metrics.of_topic(topic).bytes_in = number
        offsets = (OffsetToCommit(topic, 0, 0),)
        lane.submit(AskGroups(CommitOffsets(GroupId(topic), -1, NO_MEMBER_ID, None, offsets)))
        name = TransactionalId(topic)
        lane.submit(Transact(name, InitProducer(name, 60_000)))
        value = lane.view.transaction(name)
        assert value is not None
        joining = AddPartitions(
            value.producer_id, value.producer_epoch, frozenset({TopicPartition(topic, 0)})
        )
        lane.submit(Transact(name, joining))


async def scraped(count: int) -> Work:
    machine = Machine(SHOWN)
    async with machine.broker() as broker:
        fill(broker, count)
        broker.census = Census(broker)
        await Retention(broker).measure()
        broker.census.latest = await broker.census.round()
        shown = broker.census.latest.shown
        assert shown.busiest[:2] == (f"t{count - 1}", f"t{count - 2}")
        assert shown.held_back[0] == (f"t{count - 1}", shown.held_back_max)
        assert (shown.held_back_max, len(shown.held_back)) == (count - 1, 10)
        assert shown.lag_sum == sum(range(count))
        assert len(broker.metrics.largest_topics) == 10
        collector = Collector(broker)
        list(collector.collect())
        return work_of(lambda: list(collector.collect()))


@on_a(Machine, SHOWN)
async def test_a_scrape_is_as_much_work_with_many_as_with_few(machine: Machine) -> None:
    few, many = await scraped(30), await scraped(300)
    assert few.is_about(many), (few, many)


def test_the_largest_are_those_of_a_sorted_list() -> None:
    rng = Random(1)
    values = {f"n{number}": rng.randrange(50) for number in range(200)}
    for count in (0, 1, 7, 200, 300):
        largest = Largest[str](count)
        for name, value in values.items():
            largest.add(name, value)
        found = [values[name] for name in largest.names()]
        assert found == sorted(values.values(), reverse=True)[:count]
