"""Random walks over all commands and states: what holds after every step, whatever came before."""

import itertools
import random

import pytest
from msgspec.structs import replace

from semel.errors import RequestError
from semel.transactions.commands import (
    Abort,
    AddOffsets,
    AddPartitions,
    Command,
    Decision,
    Doom,
    End,
    ExpireId,
    ForgetTopic,
    InitProducer,
    WriteOffsets,
    WriteRecords,
)
from semel.transactions.records import decode
from semel.transactions.store import Transactions
from semel.transactions.transaction import Transaction
from semel.types import EPOCH_MAX, NO_PRODUCER_ID, ProducerEpoch, ProducerId, Term
from support.deciding import decide_whole
from support.transaction_world import ID, P0, P1, P2, TIMEOUT_MS, TV1, TV2, Producer, World

# By Kafka's names, so that the table of the code is not its own judge.
LEGAL = {
    "Empty": "Empty Ongoing PrepareAbort Dead",
    "Ongoing": "Ongoing PrepareCommit PrepareAbort",
    "PrepareCommit": "PrepareCommit CompleteCommit",
    "PrepareAbort": "PrepareAbort CompleteAbort",
    "CompleteCommit": "Empty Ongoing PrepareAbort Dead",
    "CompleteAbort": "Empty Ongoing PrepareAbort Dead",
}
SEEDS = range(20)
STEPS = 250


class Walk:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        self.given: list[Producer] = []
        """Every producer id and epoch that a client was ever told."""
        self.accepted: set[str] = set()
        self.met: set[str] = set()

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()

    def producer(self) -> Producer:
        """Mostly the present one, else one that was given once, or a neighbour of it."""
        if not self.given:
            return ProducerId(1), ProducerEpoch(0)
        producer_id, epoch = self.rng.choice([self.given[-1]] * 3 + self.given[-4:])
        return producer_id, ProducerEpoch(epoch + self.rng.choice((0, 0, 0, 0, 0, -1, 1)))

    def command(self) -> Command:
        rng = self.rng
        producer_id, epoch = self.producer()
        partitions = frozenset(rng.sample((P0, P1, P2), rng.randrange(1, 3)))
        dialect = rng.choice((TV1, TV2))
        named = InitProducer(ID, TIMEOUT_MS, producer_id, epoch)
        return rng.choice(
            (
                rng.choice((InitProducer(ID, TIMEOUT_MS), named)),
                AddPartitions(producer_id, epoch, partitions),
                AddOffsets(producer_id, epoch, rng.randrange(2)),
                WriteRecords(producer_id, epoch, partitions, dialect),
                WriteOffsets(producer_id, epoch, rng.randrange(2), dialect),
                End(producer_id, epoch, rng.random() < 0.5, dialect),
                End(producer_id, epoch, rng.random() < 0.5, dialect),
                Abort(),
                rng.choice((Doom(producer_id, epoch), ForgetTopic(P0.topic), ExpireId())),
            )
        )

    def step(self) -> None:
        world, rng = self.world, self.rng
        world.now_ms += rng.choice((1, 1, 1_000, TIMEOUT_MS // 2))
        before = world.store.get(ID)
        if rng.random() < 0.02 and before is not None and not before.is_open:
            self.wear_out(before)
        elif rng.random() < 0.04:
            world.raise_term()
        else:
            self.take(self.command(), before)
        self.check_replay()

    def wear_out(self, before: Transaction) -> None:
        """Skip nearly all epochs, as if they had been given to others."""
        epoch = ProducerEpoch(max(before.producer_epoch, EPOCH_MAX - 3))
        worn = Decision(before.producer_id, epoch, (replace(before, producer_epoch=epoch),))
        self.world.apply(worn)

    def take(self, command: Command, before: Transaction | None) -> None:
        world = self.world
        next_producer_id = world.next_producer_id
        try:
            decision = world.take(command)
        except RequestError as error:
            assert world.store.get(ID) == before
            assert world.next_producer_id == next_producer_id
            self.met.add(type(error).__name__)
            return
        self.accepted.add(type(command).__name__)
        versions = decision.values if before is None else (before, *decision.values)
        for one, other in itertools.pairwise(versions):
            assert other.status.label in LEGAL[one.status.label].split()
            self.check_pair(one, other)
        self.check_markers(before, decision)
        if isinstance(command, InitProducer | End):
            self.hand_out((decision.producer_id, decision.producer_epoch))
        self.check_retry(command, decision, before)

    def check_pair(self, one: Transaction, other: Transaction) -> None:
        if other.producer_id == NO_PRODUCER_ID:
            return
        order = (one.producer_id, one.producer_epoch), (other.producer_id, other.producer_epoch)
        assert order[0] <= order[1], "an epoch went back"
        if order[0] == order[1]:
            assert one.epoch_term == other.epoch_term, "a term was refreshed without an epoch"
        elif other.next_producer_id == NO_PRODUCER_ID and one.next_producer_id == NO_PRODUCER_ID:
            assert other.epoch_term == self.world.term
        assert not other.is_doomed or other.status.label == "Ongoing"
        if other.status.label in ("Empty", "CompleteCommit", "CompleteAbort"):
            assert not other.partitions

    def check_markers(self, before: Transaction | None, decision: Decision) -> None:
        """Whoever was part of what has ended is told, and no one else."""
        prepared = [value for value in decision.values if value.is_prepared]
        if before is not None and prepared:
            told = () if decision.markers is None else decision.markers.partitions
            assert set(told) == set(before.partitions)
            if decision.markers is not None:
                assert decision.markers.producer_id == before.producer_id
                assert decision.markers.producer_epoch >= before.producer_epoch
        else:
            assert decision.markers is None

    def hand_out(self, producer: Producer) -> None:
        assert producer[1] < EPOCH_MAX, "32767 was handed out"
        if not self.given or producer != self.given[-1]:
            assert producer not in self.given, "an epoch was handed out again"
            self.given.append(producer)

    def check_retry(self, command: Command, decision: Decision, before: Transaction | None) -> None:
        """Whoever lost the answer asks again and hears the same, and nothing is written."""
        if isinstance(command, Doom):
            return  # It is refused, the first time and every time.
        if isinstance(command, InitProducer) and command.producer_id == NO_PRODUCER_ID:
            return  # A newcomer cannot be told from another newcomer.
        value = self.world.store.get(ID)
        if value is None or before is None:
            return  # An id that has expired knows nothing of its producers.
        again = decide_whole(value, command, self.world.context)
        assert again.values == ()
        assert (again.producer_id, again.producer_epoch) == (
            decision.producer_id,
            decision.producer_epoch,
        )

    def check_replay(self) -> None:
        """A coordinator that reads the log again knows what the one that wrote it knows."""
        replayed = Transactions()
        for entry in self.world.entries[-8:]:
            value = decode(*entry)
            assert value is not None
            replayed.apply(value, self.world.now_ms)
        assert replayed.get(ID) == self.world.store.get(ID)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_walk_keeps_the_laws(seed: int) -> None:
    Walk(seed).run()


def test_the_walks_meet_every_command_and_every_refusal() -> None:
    accepted: set[str] = set()
    met: set[str] = set()
    producer_ids: set[int] = set()
    for seed in SEEDS[:10]:
        walk = Walk(seed)
        walk.run()
        accepted |= walk.accepted
        met |= walk.met
        producer_ids |= {producer_id for producer_id, _ in walk.given}
    assert accepted == {command.__name__ for command in COMMANDS}
    assert met >= {
        "InvalidProducerIdMapping",
        "InvalidTransactionState",
        "ProducerFenced",
        "TransactionAbortable",
    }
    assert len(producer_ids) > 2, "epochs have run out, and ids have expired"


COMMANDS = (
    InitProducer,
    AddPartitions,
    AddOffsets,
    WriteRecords,
    WriteOffsets,
    End,
    Doom,
    Abort,
    ForgetTopic,
    ExpireId,
)


def test_a_new_term_is_reached_in_the_walks() -> None:
    walk = Walk(0)
    walk.run()
    assert walk.world.term > Term(2)
