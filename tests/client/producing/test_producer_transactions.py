"""What a transaction's calls do when its coordinator refuses them, by a script."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, cast

import pytest

from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown
from semel.client.producing.coordination import (
    CoordinatorFeatures,
    GroupMetadata,
    TransactionCoordination,
)
from semel.client.producing.core import ProducerCore
from semel.client.producing.engine import ProducerEngine
from semel.client.producing.requests import BatchAnswer
from semel.client.producing.settings import ProducerSettings
from semel.client.producing.transaction_state import TransactionStatus
from semel.client.producing.transactions import ProducerTransactions
from semel.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    NetworkException,
    NotCoordinator,
    ProducerFenced,
    RequestError,
    TransactionAbortable,
    UnknownProducerId,
)
from semel.types import NO_PRODUCER, ProducerIdAndEpoch, TopicPartition

PLACE = TopicPartition("t", 0)
FIRST = ProducerIdAndEpoch(7, 0)
GROUP = GroupMetadata("g")


class ScriptedCoordination:
    """Notes what it is asked, and refuses what the script says."""

    def __init__(self, dialect: CoordinatorFeatures, refusals: Mapping[str, RequestError]) -> None:
        self._dialect = dialect
        self.refusals = dict(refusals)
        self.asked: list[str] = []
        self.is_answering = asyncio.Event()
        self.is_answering.set()
        self._epoch = -1

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if name in self.refusals:
            raise self.refusals[name]

    def _next(self) -> ProducerIdAndEpoch:
        self._epoch += 1
        return ProducerIdAndEpoch(FIRST.producer_id, self._epoch)

    async def features(self) -> CoordinatorFeatures:
        return self._dialect

    async def initialise(self, producer: ProducerIdAndEpoch = NO_PRODUCER) -> ProducerIdAndEpoch:
        self._ask("initialise" if producer == NO_PRODUCER else "renew")
        return self._next()

    async def add_partitions(self, *_: object) -> None:
        await self._begin("add partitions")

    async def add_group(self, *_: object) -> None:
        await self._begin("add group")

    async def _begin(self, name: str) -> None:
        self.asked.append(f"{name}...")
        await self.is_answering.wait()
        self.asked.pop()
        self._ask(name)

    async def commit_offsets(self, *_: object) -> None:
        self._ask("offsets")

    async def end(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> ProducerIdAndEpoch:
        self._ask("commit" if is_commit else "abort")
        return self._next() if self._dialect.is_implicit else producer


class ObligingEngine:
    """Stores everything that the core wants to send."""

    def __init__(self, core: ProducerCore) -> None:
        self.core = core
        self.lock = nullcontext()
        self.attend_to_transaction: Any = None

    def pump(self) -> None:
        for request in self.core.drain(0).requests:
            self.core.answered(request, [BatchAnswer(None, 0)] * len(request.batches), 0)

    async def flush(self) -> None:
        self.core.close_batches()
        assert self.core.transaction is not None
        if self.core.transaction.joining:
            await self.attend_to_transaction()
        self.pump()

    async def answers(self) -> None:
        pass


class Stage:
    def __init__(
        self, *, is_implicit: bool, can_renew: bool = True, **refusals: RequestError
    ) -> None:
        self.core = ProducerCore(ProducerSettings(transactional_id="id"))
        self.core.learn_leaders([(PLACE, 1)])
        self.coordination = ScriptedCoordination(
            CoordinatorFeatures(is_implicit, can_renew),
            {name.replace("_", " "): error for name, error in refusals.items()},
        )
        assert self.core.transaction is not None
        self.transaction = self.core.transaction
        self.engine = ObligingEngine(self.core)
        self.session = ProducerTransactions(
            cast(ProducerEngine, self.engine),
            self.transaction,
            cast(TransactionCoordination, self.coordination),
        )

    async def begin(self) -> None:
        await self.session.begin()
        self.core.append(self.core.queue(PLACE), None, b"x", (), 0)

    def recover(self) -> None:
        """The coordinator comes to its senses."""
        self.coordination.refusals.clear()

    def asked(self) -> list[str]:
        asked, self.coordination.asked = self.coordination.asked, []
        return asked


async def ticks() -> None:
    """Let the loop do all that it can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_each_transaction_has_an_epoch_of_its_own_where_that_is_agreed() -> None:
    async def work() -> None:
        stage = Stage(is_implicit=True)
        for epoch in range(3):
            await stage.begin()
            assert stage.core.producer == ProducerIdAndEpoch(7, epoch)
            await stage.session.commit()
        assert stage.asked() == ["initialise", "commit", "commit", "commit"]

    asyncio.run(work())


def test_partitions_and_groups_are_announced_where_it_is_not() -> None:
    async def work() -> None:
        stage = Stage(is_implicit=False)
        await stage.begin()
        await stage.session.send_offsets({PLACE: 1}, GROUP)
        await stage.session.send_offsets({PLACE: 2}, GROUP)
        await stage.session.commit()
        await stage.begin()
        await stage.session.commit()
        assert stage.core.producer == FIRST
        assert stage.asked() == [
            *("initialise", "add group", "offsets", "offsets", "add partitions", "commit"),
            *("add partitions", "commit"),
        ]

    asyncio.run(work())


@pytest.mark.parametrize("refusal", [TransactionAbortable("120"), UnknownProducerId("59")])
@pytest.mark.parametrize("is_implicit", [True, False])
def test_a_commit_that_is_refused_is_aborted_and_the_next_has_another_epoch(
    refusal: RequestError, is_implicit: bool
) -> None:
    async def work() -> None:
        stage = Stage(is_implicit=is_implicit, commit=refusal)
        await stage.begin()
        with pytest.raises(MustAbort):
            await stage.session.commit()
        await stage.session.abort()
        assert stage.core.producer == ProducerIdAndEpoch(7, 1)
        stage.recover()
        await stage.begin()
        await stage.session.commit()
        assert stage.asked()[-1] == "commit"

    asyncio.run(work())


@pytest.mark.parametrize(
    "refusal", [ProducerFenced("90"), InvalidProducerEpoch("47"), InvalidTransactionState("48")]
)
def test_a_fenced_producer_stops(refusal: RequestError) -> None:
    async def work() -> None:
        stage = Stage(is_implicit=True, commit=refusal)
        await stage.begin()
        with pytest.raises(MustStop):
            await stage.session.commit()
        with pytest.raises(MustStop):
            await stage.session.abort()
        with pytest.raises(MustStop):
            await stage.session.begin()
        assert stage.core.fatal is refusal

    asyncio.run(work())


def test_a_commit_without_an_answer_is_asked_for_again_under_the_same_epoch() -> None:
    async def work() -> None:
        stage = Stage(is_implicit=True, commit=NetworkException("gone"))
        await stage.begin()
        with pytest.raises(OutcomeUnknown):
            await stage.session.commit()
        assert stage.core.producer == FIRST
        stage.recover()
        await stage.session.commit()
        assert stage.asked() == ["initialise", "commit", "commit"]
        assert stage.transaction.status is TransactionStatus.READY

    asyncio.run(work())


def test_an_abort_without_an_answer_is_asked_for_again() -> None:
    async def work() -> None:
        stage = Stage(is_implicit=True, abort=NotCoordinator("moved"))
        await stage.begin()
        await stage.session.send_offsets({PLACE: 1}, GROUP)
        with pytest.raises(MustAbort, match="not aborted yet"):
            await stage.session.abort()
        stage.recover()
        await stage.session.abort()
        assert stage.transaction.status is TransactionStatus.READY
        assert stage.core.producer == ProducerIdAndEpoch(7, 1)

    asyncio.run(work())


def test_a_beginning_without_an_answer_may_turn_out_never_to_have_been() -> None:
    async def work() -> None:
        stage = Stage(
            is_implicit=False,
            add_partitions=NetworkException("gone"),
            abort=InvalidTransactionState("nothing to abort"),
        )
        await stage.begin()
        with pytest.raises(MustAbort):
            await stage.session.commit()
        await stage.session.abort()
        assert stage.asked() == ["initialise", "add partitions", "abort", "renew"]
        stage.recover()
        await stage.begin()
        await stage.session.commit()

    asyncio.run(work())


@pytest.mark.parametrize("refusal", [None, TransactionAbortable("no"), NetworkException("gone")])
def test_an_abort_comes_behind_a_beginning_that_is_under_way(refusal: RequestError | None) -> None:
    async def work() -> None:
        stage = Stage(is_implicit=False)
        if refusal is not None:
            stage.coordination.refusals["add partitions"] = refusal
        await stage.begin()
        stage.coordination.is_answering.clear()
        async with asyncio.TaskGroup() as tasks:
            joining = tasks.create_task(stage.engine.attend_to_transaction())
            await ticks()
            aborting = tasks.create_task(stage.session.abort())
            await ticks()
            assert not joining.done()
            assert not aborting.done()
            stage.coordination.is_answering.set()
        assert stage.asked() == ["initialise", "add partitions", "abort"]
        stage.recover()
        await stage.begin()
        await stage.session.commit()
        assert stage.asked() == ["add partitions", "commit"]

    asyncio.run(work())


def test_a_beginning_that_was_interrupted_is_aborted() -> None:
    async def work() -> None:
        stage = Stage(is_implicit=False, abort=InvalidTransactionState("it had not begun"))
        await stage.begin()
        stage.coordination.is_answering.clear()
        sending = asyncio.get_running_loop().create_task(
            stage.session.send_offsets({PLACE: 1}, GROUP)
        )
        await ticks()
        sending.cancel()
        await asyncio.wait([sending])
        await stage.session.abort()
        assert stage.asked() == ["initialise", "add group...", "abort", "renew"]
        assert stage.transaction.status is TransactionStatus.READY

    asyncio.run(work())


def test_a_partition_does_not_join_what_is_being_aborted() -> None:
    async def work() -> None:
        stage = Stage(is_implicit=False)
        await stage.begin()
        await stage.session.abort()
        await stage.engine.attend_to_transaction()
        assert stage.asked() == ["initialise"]

    asyncio.run(work())


def test_where_no_epoch_can_be_had_a_refused_transaction_is_the_last() -> None:
    async def work() -> None:
        stage = Stage(is_implicit=False, can_renew=False, offsets=TransactionAbortable("no"))
        await stage.begin()
        with pytest.raises(MustAbort):
            await stage.session.send_offsets({PLACE: 1}, GROUP)
        with pytest.raises(MustStop):
            await stage.session.abort()
        assert stage.asked() == ["initialise", "add group", "offsets", "abort"]

    asyncio.run(work())


def test_an_epoch_that_cannot_be_renewed_yet_is_asked_for_again() -> None:
    async def work() -> None:
        stage = Stage(
            is_implicit=False, offsets=UnknownProducerId("59"), renew=NetworkException("gone")
        )
        await stage.begin()
        with pytest.raises(MustAbort):
            await stage.session.send_offsets({PLACE: 1}, GROUP)
        with pytest.raises(MustAbort, match="not aborted yet"):
            await stage.session.abort()
        stage.recover()
        await stage.session.abort()
        # The transaction itself was ended by the first abort.
        assert stage.asked()[-3:] == ["abort", "renew", "renew"]

    asyncio.run(work())
