"""Transactions whose partitions and groups lie in several lanes, in one broker."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from broker.handled_producer import HandledProducer
from semel.broker.broker import Broker
from semel.broker.commits import CONFIRM_S, HEARD_S
from semel.errors import (
    NONE,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from semel.journal.seam import JournalAbandoned
from semel.lane.calls import AnyCall, AskToJoin, AskToPrepare, LaneAway, Outcome, TellOutcomes
from semel.types import Term, TopicPartition
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from support.compiled import plain_python
from support.handled import CONFIG, call
from support.lanes_rules import is_a
from support.raw_client import decoded_reply, encoded, request_frame
from support.seeded_loop import elapse, run
from support.several_lanes import (
    SeveralLanes,
    Wire,
    committed_offset,
    create,
    group_in,
    read,
    restart,
    transactional_id_in,
)
from support.transactional_wire import TV1, TV2, Versions

LANES = (0, 1, 2)
LATE_S = 0.5
"""So long a lane may take to hear of a commit on a busy machine."""
BOTH = pytest.mark.parametrize("versions", [TV1, TV2])


class Copier(HandledProducer):
    """Writes to a partition in each lane, and offsets of a group in one of them."""

    def __init__(self, broker: Broker, coordinator: int, group_lane: int, versions: Versions):
        super().__init__(broker, transactional_id_in(broker, coordinator), versions)
        self.group = group_in(broker, group_lane)

    async def write(self, value: bytes, partitions: tuple[int, ...] = LANES) -> None:
        if self.versions is TV1:
            assert await self.add("t", partitions) == {NONE}
        for partition in partitions:
            assert (await self.produce("t", value, partition)).error_code == NONE

    async def write_offset(self, offset: int) -> None:
        if self.versions is TV1:
            assert await self.add_offsets(self.group) == NONE
        assert await self.commit_offsets(self.group, {("t", 0): offset}) == {NONE}


async def all_read(broker: Broker) -> list[list[bytes]]:
    return [await read(broker, partition) for partition in LANES]


@BOTH
@pytest.mark.parametrize("coordinator", LANES)
def test_a_commit_over_lanes_shows_all_of_it_at_once(coordinator: int, versions: Versions) -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, coordinator, (coordinator + 1) % 3, versions)
            assert await copier.init() == NONE
            for number in range(3):
                value = b"%d" % number
                await copier.write(value)
                await copier.write_offset(number + 1)
                assert await all_read(broker) == [[b"%d" % n for n in range(number)]] * 3
                assert await copier.end(commit=True) == NONE
                assert await all_read(broker) == [[b"%d" % n for n in range(number + 1)]] * 3
                found = await committed_offset(broker, copier.group, TopicPartition("t", 0))
                assert found == (NONE, number + 1)
            await elapse(1)
            assert not any(lane.view.has_joined for lane in broker.lanes.led)
            assert not [*broker.lanes.by_number[coordinator].view.unconfirmed()]
        machine.lose_power()
        async with machine.broker() as broker:
            assert await all_read(broker) == [[b"0", b"1", b"2"]] * 3

    run(Random(1), scenario())


@BOTH
@pytest.mark.parametrize("coordinator", LANES)
def test_an_abort_over_lanes_shows_none_of_it(coordinator: int, versions: Versions) -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, coordinator, (coordinator + 1) % 3, versions)
            assert await copier.init() == NONE
            await copier.write(b"aborted")
            await copier.write_offset(1)
            assert await copier.end(commit=False) == NONE
            copier.go_back()
            await until_opened(copier)
            await copier.write(b"kept")
            assert await copier.end(commit=True) == NONE
            assert await all_read(broker) == [[b"kept"]] * 3
            found = await committed_offset(broker, copier.group, TopicPartition("t", 0))
            assert found == (NONE, -1)

    run(Random(1), scenario())


@BOTH
@pytest.mark.parametrize("coordinator", LANES)
def test_a_new_incarnation_ends_what_the_old_one_left_in_all_lanes(
    coordinator: int, versions: Versions
) -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            old = Copier(broker, coordinator, (coordinator + 1) % 3, versions)
            assert await old.init() == NONE
            await old.write(b"old")
            await old.write_offset(1)
            new = Copier(broker, coordinator, (coordinator + 1) % 3, versions)
            assert await new.init() == NONE
            assert not any(lane.view.has_joined for lane in broker.lanes.led)
            found = await committed_offset(broker, new.group, TopicPartition("t", 0), stable=False)
            assert found == (NONE, -1)
            assert await old.end(commit=True) in (ProducerFenced.code, InvalidProducerEpoch.code)
            for partition in LANES:
                refused = await old.produce("t", b"zombie", partition)
                assert refused.error_code == InvalidProducerEpoch.code
            await new.write(b"new")
            assert await new.end(commit=True) == NONE
            assert await all_read(broker) == [[b"new"]] * 3

    run(Random(1), scenario())


@BOTH
def test_what_takes_too_long_is_aborted_in_all_lanes(versions: Versions) -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            slow = Copier(broker, 0, 1, versions)
            assert await slow.init(timeout_ms=3_000) == NONE
            await slow.write(b"slow")
            await slow.write_offset(1)
            await elapse(2)
            assert all(broker.lanes.by_number[each].view.has_joined for each in (1, 2))
            await elapse(3)
            assert not any(lane.view.has_joined for lane in broker.lanes.led)
            assert await all_read(broker) == [[]] * 3
            assert await slow.end(commit=True) != NONE

    run(Random(1), scenario())


@BOTH
@pytest.mark.parametrize("coordinator", [0, 1])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lane_that_loses_power_lets_no_part_be_committed(
    lost: int, coordinator: int, versions: Versions
) -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, coordinator, 2, versions)
            assert await copier.init() == NONE
            await copier.write(b"torn")
            await copier.write_offset(1)
            await restart(machine, broker, lost, power_loss=True)
            assert await copier.end(commit=True) != NONE
            # The client hears the same again.
            assert await copier.end(commit=True) != NONE
            await elapse(3)
            assert await all_read(broker) == [[]] * 3
            assert not any(lane.view.has_joined for lane in broker.lanes.led)
            again = Copier(broker, coordinator, 2, versions)
            assert await again.init() == NONE
            await again.write(b"whole")
            await again.write_offset(1)
            assert await again.end(commit=True) == NONE
            assert await all_read(broker) == [[b"whole"]] * 3

    run(Random(1), scenario())


@BOTH
@pytest.mark.parametrize("killed", [0, 1, 2])
def test_a_killed_worker_takes_its_lane_back_and_the_commit_succeeds(
    killed: int, versions: Versions
) -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, 0, 2, versions)
            assert await copier.init() == NONE
            await copier.write(b"whole")
            await copier.write_offset(1)
            for lane in broker.lanes.led:
                await lane.until(lane.when_all_written)
            await restart(machine, broker, killed)
            assert await copier.end(commit=True) == NONE
            assert await all_read(broker) == [[b"whole"]] * 3
            found = await committed_offset(broker, copier.group, TopicPartition("t", 0))
            assert found == (NONE, 1)

    run(Random(1), scenario())


@BOTH
@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.002, 0.003, 0.005])
@pytest.mark.parametrize("victim", [0, 1, None])
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_crash_at_any_moment_of_a_commit_leaves_all_of_it_or_none(
    power_loss: bool, victim: int | None, after_s: float, versions: Versions
) -> None:
    """Of one lane, or of all."""

    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, 0, 2, versions)
            assert await copier.init() == NONE
            await copier.write(b"v")
            await copier.write_offset(1)
            for lane in broker.lanes.led:
                await lane.until(lane.when_all_written)
            ending = asyncio.ensure_future(copier.end(commit=True))
            await elapse(after_s)
            if victim is not None:
                await restart(machine, broker, victim, power_loss=power_loss)
                await elapse(3)
            heard = ending.result() if ending.done() and not ending.cancelled() else None
            ending.cancel()
            before = await all_read(broker)
        if power_loss and victim is None:
            machine.lose_power()
        async with machine.broker() as broker:
            again = Copier(broker, 0, 2, versions)
            assert await again.init() == NONE
            shown = await all_read(broker)
            offset = await committed_offset(broker, copier.group, TopicPartition("t", 0))
            assert (shown, offset) in (([[b"v"]] * 3, (NONE, 1)), ([[]] * 3, (NONE, -1)))
            if heard == NONE:
                assert shown == [[b"v"]] * 3
            for seen, now in zip(before, shown, strict=True):
                assert now[: len(seen)] == seen
            assert not any(lane.view.has_joined for lane in broker.lanes.led)
            assert not any([*lane.view.unconfirmed()] for lane in broker.lanes.led)
            await again.write(b"w")
            assert await again.end(commit=True) == NONE
            assert await read(broker, 1) == [*shown[1], b"w"]

    run(Random(1), scenario())


@BOTH
@pytest.mark.parametrize("lanes", [(0, 1), (0, 1, 2), (1, 2), (1,)])
def test_a_commit_over_lanes_takes_one_write_of_delay(
    lanes: tuple[int, ...], versions: Versions
) -> None:
    """However many lanes take part: what is synced behind the first sync of each delays nobody."""

    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, 0, 2, versions)
            assert await copier.init() == NONE
            await copier.write(b"v", lanes)
            for lane in broker.lanes.led:
                await lane.until(lane.when_all_durable)
            for device in machine.devices:
                device.holds_syncs = True
            ending = asyncio.ensure_future(copier.end(commit=True))
            await elapse(1)
            assert not ending.done()
            waits = [device.held_count for device in machine.devices]
            assert waits == [int(number in {0, *lanes}) for number in LANES]
            for device in machine.devices:
                device.release_those_held()
            assert await ending == NONE
            for number in lanes:
                assert await read(broker, number) == [b"v"]
            for device in machine.devices:
                device.release()

    run(Random(1), scenario())


async def until_opened(copier: HandledProducer) -> None:
    """A TV1 client asks again while the abort is not heard everywhere."""
    if copier.versions is TV1:
        while await copier.add("t", LANES) == {ConcurrentTransactions.code}:
            await elapse(0.01)


@BOTH
@pytest.mark.parametrize("is_heard", [True, False], ids=["joined", "not joined"])
def test_a_write_to_what_is_deleted_while_it_joins_is_refused(
    versions: Versions, is_heard: bool
) -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            await create(broker, "brief")
            producer = HandledProducer(broker, transactional_id_in(broker, 0), versions)
            assert await producer.init() == NONE
            if versions is TV1:
                assert await producer.add("brief", [1]) == {NONE}
                assert await producer.add("t", [1]) == {NONE}
            wire = Wire(broker)
            hold = is_a(AskToJoin)
            held = wire.answers_held if is_heard else wire.held
            held.append(hold)
            writing = asyncio.ensure_future(producer.produce("brief", b"v", 1))
            await elapse(0.1)
            request = DeleteTopicsRequest([DeleteTopicState("brief")], ["brief"], 1_000)
            (deleted,) = (await call(broker, "delete_topics", 5, request)).responses
            assert deleted.error_code == NONE
            held.remove(hold)
            assert (await writing).error_code == UnknownTopicOrPartition.code
            assert (await producer.produce("t", b"v", 1)).error_code == NONE
            assert await producer.end(commit=True) == NONE
            assert await read(broker, 1) == [b"v"]

    run(Random(1), scenario())


@pytest.mark.parametrize("is_heard", [True, False], ids=["joined", "not joined"])
@pytest.mark.parametrize("is_remade", [True, False], ids=["made again", "gone"])
@BOTH
def test_offsets_of_what_is_deleted_while_their_lane_joins_are_refused(
    versions: Versions, is_remade: bool, is_heard: bool
) -> None:
    async def scenario() -> None:
        async with SeveralLanes().broker() as broker:
            await create(broker)
            await create(broker, "brief")
            producer = HandledProducer(broker, transactional_id_in(broker, 0), versions)
            assert await producer.init() == NONE
            group = group_in(broker, 1)
            if versions is TV1:
                assert await producer.add_offsets(group) == NONE
            wire = Wire(broker)
            hold = is_a(AskToJoin)
            held = wire.answers_held if is_heard else wire.held
            held.append(hold)
            offsets = {("brief", 0): 5, ("t", 0): 7}
            committing = asyncio.ensure_future(producer.commit_offsets(group, offsets))
            await elapse(0.1)
            request = DeleteTopicsRequest([DeleteTopicState("brief")], ["brief"], 1_000)
            (deleted,) = (await call(broker, "delete_topics", 5, request)).responses
            assert deleted.error_code == NONE
            if is_remade:
                await create(broker, "brief")
            held.remove(hold)
            assert await committing == {NONE, UnknownTopicOrPartition.code}
            assert await producer.end(commit=True) == NONE
            if not is_remade:
                await create(broker, "brief")
            for topic, offset in (("brief", -1), ("t", 7)):
                partition = TopicPartition(topic, 0)
                assert await committed_offset(broker, group, partition) == (NONE, offset)

    run(Random(1), scenario())


@plain_python
def test_a_lane_that_has_closed_its_journal_is_away_for_others() -> None:
    """As when a node stops: what is told of it comes later, from whoever leads next."""

    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            producer = HandledProducer(broker, transactional_id_in(broker, 0), TV2)
            assert await producer.init() == NONE
            assert (await producer.produce("t", b"v", 1)).error_code == NONE
            (joined,) = broker.lanes.by_number[1].view.all_joined()
            lane = broker.lanes.by_number[1]

            def refuse(command: object) -> None:
                raise JournalAbandoned("the journal is sealed")

            submit = lane.submit
            lane.submit = refuse  # type: ignore[method-assign, assignment]
            aborted = Outcome(joined.key, False, joined.key.producer_epoch, Term(0))
            for asked in (TellOutcomes((aborted,)), AskToPrepare(joined.key, "tx", Term(0))):
                with pytest.raises(LaneAway):
                    await broker.peers.ask(1, asked)
            lane.submit = submit  # type: ignore[method-assign]

    run(Random(1), scenario())


@BOTH
def test_transactions_that_follow_each_other_cost_each_lane_one_sync(versions: Versions) -> None:
    """Nobody waits for the markers of the last one: they are stored beside the next."""

    async def scenario() -> None:
        machine = SeveralLanes(replace(CONFIG, log_flush_interval_ms=60_000))
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, 0, 0, versions)
            assert await copier.init() == NONE
            await copier.write(b"first")
            assert await copier.end(commit=True) == NONE
            before = [device.sync_count for device in machine.devices]
            for _ in range(5):
                await copier.write(b"next")
                assert await copier.end(commit=True) == NONE
            assert [device.sync_count for device in machine.devices] == [n + 5 for n in before]
            await elapse(1.0)
            assert not any([*lane.view.unconfirmed()] for lane in broker.lanes.led)

    run(Random(1), scenario())


def test_who_waits_for_confirmations_has_them_at_once() -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            copier = Copier(broker, 0, 0, TV2)
            assert await copier.init() == NONE
            await copier.write(b"v")
            assert await copier.end(commit=True) == NONE
            began_s = asyncio.get_running_loop().time()
            assert await copier.init() == NONE
            assert asyncio.get_running_loop().time() - began_s < CONFIRM_S / 2

    run(Random(1), scenario())


def test_who_hears_of_a_commit_late_is_waited_for_and_who_is_away_is_not() -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            producer = HandledProducer(broker, transactional_id_in(broker, 0), TV2)
            assert await producer.init() == NONE
            wire = Wire(broker)
            for lane in (0, 1):
                assert (await producer.produce("t", b"first", lane)).error_code == NONE
            hold = is_a(TellOutcomes)
            wire.held.append(hold)
            ending = asyncio.ensure_future(producer.end(commit=True))
            await elapse(LATE_S)
            assert not ending.done()
            wire.held.remove(hold)
            assert await ending == NONE
            assert await read(broker, 1) == [b"first"]
            assert (await producer.produce("t", b"second", 1)).error_code == NONE
            wire.lost.append(hold)
            async with asyncio.timeout(2 * HEARD_S):
                assert await producer.end(commit=True) == NONE

    run(Random(1), scenario())


def test_a_fenced_write_hears_so_also_of_a_topic_that_its_coordinator_does_not_know() -> None:
    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            name = transactional_id_in(broker, 0)
            old, new = HandledProducer(broker, name, TV2), HandledProducer(broker, name, TV2)
            assert await old.init() == NONE
            wire = Wire(broker)
            hold = is_a(AskToJoin)
            wire.held.append(hold)
            writing = asyncio.ensure_future(old.produce("t", b"v", 1))
            await elapse(0.1)
            assert await new.init() == NONE
            with pytest.MonkeyPatch.context() as patch:
                # As if another led the catalogue, and had not told of the topic yet.
                patch.setattr(type(broker.lanes.catalogue), "get", lambda self, name: None)
                wire.held.remove(hold)
                await elapse(0.1)
            assert (await writing).error_code == InvalidProducerEpoch.code

    run(Random(1), scenario())


READ_COMMITTED = 1


class Answers(asyncio.Transport):
    """To a client, as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is room."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data


def test_what_lies_in_a_line_is_heard_before_a_client_is_answered() -> None:
    """An outcome that a worker has there counts as heard: its client may have gone on."""

    async def scenario() -> None:
        machine = SeveralLanes()
        async with machine.broker() as broker:
            await create(broker)
            producer = HandledProducer(broker, transactional_id_in(broker, 0), TV2)
            assert await producer.init() == NONE
            for lane in (0, 1):
                assert (await producer.produce("t", b"first", lane)).error_code == NONE
            wire = Wire(broker)
            placed: list[TellOutcomes] = []

            def hold(lane: int, said: AnyCall) -> bool:
                if isinstance(said, TellOutcomes):
                    placed.append(said)
                return isinstance(said, TellOutcomes)

            wire.held.append(hold)
            ending = asyncio.ensure_future(producer.end(commit=True))
            await elapse(LATE_S)
            server = broker.server
            assert server is not None
            heard: list[bool] = []

            def hear() -> None:
                heard.append(True)
                broker.across.joins(broker.lanes.by_number[1]).end(placed[0].outcomes)

            server.hear_others = hear
            client, answers = broker.connection(), Answers()
            client.connection_made(answers)
            for _ in range(2):
                wanted = ListOffsetsTopic("t", [ListOffsetsPartition(1, timestamp=-1)])
                asked = ListOffsetsRequest(-1, READ_COMMITTED, [wanted])
                frame = request_frame("list_offsets", 7, encoded("list_offsets", 7, asked))
                client.get_buffer(-1)[: len(frame)] = frame
                client.buffer_updated(len(frame))
                await elapse(LATE_S)
                answer = decoded_reply("list_offsets", 7, answers.written[4:])
                assert answer.topics[0].partitions[0].offset >= 1
                answers.written = b""
            assert len(heard) == 2
            wire.held.remove(hold)
            assert await ending == NONE
            client.connection_lost(None)

    run(Random(1), scenario())
