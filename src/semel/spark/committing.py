"""The transaction of one micro-batch, as the driver runs it: take over, look, write, commit.

Order is everything here. Taking the transactional id over ends what a dead driver left open, so
that the marker read afterwards says for certain which batches are committed. The marker is
written in the transaction itself: the rows of a batch and its number appear together.
"""

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

from semel.client.admin.transactions import describe
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.connection import IMPLICIT_PARTITIONS
from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown, TransactionFailed
from semel.client.producing.coordination import GroupMetadata, GroupOffset
from semel.client.writing.transactional_writer import TransactionalWriter
from semel.errors import (
    InvalidProducerEpoch,
    ProducerFenced,
    RequestError,
    SemelError,
)
from semel.records import batch as record_batch
from semel.spark.marker import (
    NO_QUERY,
    NOTHING_KNOWN,
    BatchMarker,
    Verdict,
    Written,
    judge,
    marker_metadata,
    two_sinks,
)
from semel.spark.marker_home import (
    FoundMarker,
    MarkerHome,
    find_marker,
    group_of,
    stored_marker,
)
from semel.spark.offsets import Offsets
from semel.spark.sink_settings import SinkSettings
from semel.transactions.transaction import Status
from semel.types import Buffer, ProducerIdAndEpoch, TopicPartition
from semel.world import Clock, SystemClock

_log = logging.getLogger(__name__)

_ATTEMPTS = 3


# The coordinator names them so.
_ROLLED_BACK = (Status.PREPARE_ABORT.label, Status.COMPLETE_ABORT.label)


class Fenced(SemelError):
    """Another driver has taken the transactional id over."""


class TimedOut(SemelError):
    """The cluster has rolled the transaction back, as it was open for too long."""


class _Known(NamedTuple):
    run_id: str
    writer: TransactionalWriter
    committed: BatchMarker | None
    """What this very writer has found or written last; None if that is to be looked up."""
    home: MarkerHome | None
    """Where its marker stands; None if nobody has looked."""

    def leads_to(self, batch: BatchMarker) -> bool:
        """Whether no other process of the same run can have come in between.

        Spark keeps as many of them for commits as commit at the same time, and takes any.
        """
        if self.run_id != batch.run_id or self.committed is None:
            return False
        return self.committed.batch_id == batch.batch_id - 1


# Of this process, for as long as Spark reuses it. A run goes on with the epoch it has: were each
# batch to take the id over anew, a zombie that wakes up would fence the living driver.
_known: dict[tuple[int, SinkSettings, str], _Known] = {}


class BatchTransaction:
    """One micro-batch under its transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        settings: SinkSettings,
        transactional_id: str,
        batch: BatchMarker,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._begun_ms = self._clock.wall_ms()
        self._settings = settings
        self.transactional_id = transactional_id
        self._batch = batch
        self._key = (os.getpid(), settings, transactional_id)
        known = _known.get(self._key)
        self._known = known if known and known.leads_to(batch) else None
        self._home: MarkerHome | None = self._known.home if self._known else None
        self._before: BatchMarker | None = None
        """The marker that stood there when this batch began."""
        self._has_begun = False
        """From then on a marker of this very batch may be its own."""
        self.writer = TransactionalWriter(
            cluster, transactional_id, transaction_timeout_ms=settings.transaction_timeout_ms
        )

    async def take_over(self) -> Verdict:
        """Whether the batch is to be written; no one else can write it from now on."""
        if self._settings.checks_marker:
            self._check_alone()
        if self._known is None:
            await self.writer.initialise()
        else:
            await self._go_on(self._known.writer)
        if not self._settings.checks_marker:
            return Verdict.WRITE
        found = self._before = await self._last_committed()
        is_retry, self._has_begun = self._has_begun, True
        if found is None and self._known is None and self._batch.batch_id > 0:
            _log.warning(
                "%s has no marker though batch %d is not the first: it is new here, or the "
                "cluster has let the group %s expire",
                self.transactional_id,
                self._batch.batch_id,
                self._settled_home.group,
            )
        verdict = judge(
            found,
            self._batch,
            self.transactional_id,
            is_retry=is_retry,
            may_override=self._settings.may_override,
        )
        if verdict is Verdict.SKIP:
            assert found is not None
            await self._sign(found)
            _log.warning(
                "batch %d of %s is committed already: skipped",
                self._batch.batch_id,
                self.transactional_id,
            )
        return verdict

    async def _sign(self, found: BatchMarker) -> None:
        """Name this run in the marker of a batch that it skips.

        A second sink of the batch under the same id would be skipped too, and what it has to
        write be lost: by the name it is told, in whichever process it commits.
        """
        signed = found._replace(run_id=self._batch.run_id or found.run_id)
        if signed != found:
            skipped = found.written.skipped + 1
            signed = signed._replace(written=found.written._replace(skipped=skipped))
            await self.writer.begin()
            home = self._settled_home
            await self.writer.send_offsets(
                GroupMetadata(home.group), {home.partition: _offset_of(signed)}
            )
            await self.writer.commit()
        self._remember(signed)

    @property
    def _settled_home(self) -> MarkerHome:
        assert self._home is not None, "the marker was looked for"
        return self._home

    def _check_alone(self) -> None:
        """A run comes to a batch once, unless there are two sinks in it.

        That is to be told of batches that are skipped too, and of sinks with different topics:
        each would see a marker of the other, or none, and what one of them writes would be lost.
        """
        process_id, _, transactional_id = self._key
        batch = self._batch
        for (owner, _, owned_id), known in _known.items():
            is_of_this_run = (owner, owned_id, known.run_id) == (
                process_id,
                transactional_id,
                batch.run_id,
            )
            if is_of_this_run and known.committed and known.committed.batch_id == batch.batch_id:
                raise two_sinks(batch, transactional_id)

    async def _last_committed(self) -> BatchMarker | None:
        # As long as the epoch of this run is good, no one else can have moved the marker; and if
        # it is not, nothing of this batch is taken.
        if self._known is not None and self._known.committed is not None:
            return self._known.committed
        if self._home is not None:
            return await stored_marker(self._cluster, self._home)
        found: FoundMarker = await find_marker(
            self._cluster, self._settings, self.transactional_id, self._batch
        )
        self._home = found.home
        return found.marker

    async def finish(
        self,
        consumed: Offsets | None,
        rows: Sequence[tuple[TopicPartition, Buffer]] = (),
        written: Written | None = None,
    ) -> None:
        """Rows, marker and consumed offsets into the open transaction at once, and commit.

        `written` is what tasks have written themselves.
        """
        offsets: dict[str, dict[TopicPartition, GroupOffset]] = defaultdict(dict)
        if consumed and (existing := await _existing(self._cluster, consumed)):
            offsets[self._offsets_group()] |= existing
        marked = self._batch
        if self._settings.checks_marker:
            home = self._settled_home
            apart = home.offsets_group if home.offsets_group != home.group else ""
            marked = marked._replace(
                written=self._reckoned(written or _amount(rows)), offsets_group=apart
            )
            offsets[home.group][home.partition] = _offset_of(marked)
        jobs: list[Coroutine[Any, Any, object]] = []
        if rows:
            jobs.append(self.writer.write(rows))
        for group, at in offsets.items():
            jobs.append(self.writer.send_offsets(GroupMetadata(group), at))
        await _all_settled(jobs)
        await self.writer.commit()
        self._remember(marked)

    def _offsets_group(self) -> str:
        if self._home is not None:
            return self._home.offsets_group
        # Without a marker there is nothing to be found again.
        own = group_of(self._settings, self.transactional_id, self._batch)
        return self._settings.offsets_group or own

    def _reckoned(self, amount: Written) -> Written:
        now_ms = self._clock.wall_ms()
        before = self._before.written if self._before else NOTHING_KNOWN
        is_own = self._before is not None and self._before.query_id == self._batch.query_id
        return amount._replace(
            at_ms=now_ms,
            took_ms=max(0, now_ms - self._begun_ms),
            since_ms=before.at_ms if is_own else 0,
            skipped=before.skipped if is_own else 0,
        )

    async def start_over(self, error: Exception) -> Exception:
        """Roll back what is open and shut out whoever still writes to it; then try again.

        Returns what was wrong, for the last attempt to raise. If another driver has taken the id
        over, or it can never be, that is raised at once. Whatever is found here, the marker
        decides what is written.
        """
        # If that fails, whoever goes on has to take the id over.
        self.forget()
        given = await self._given_at_timeout()
        if given is not None:
            error = self._timed_out(error)
            # Refused if somebody takes the id over in between.
            self._continue_as(given)
        elif isinstance(error, MustStop) or (
            # A job without a number could find out nowhere whether this was committed.
            isinstance(error, OutcomeUnknown) and not self._may_write_again
        ):
            raise await self._explained(error)
        # Else not even the id was taken over, so that nothing is open.
        if self.writer.is_initialised:
            try:
                await self.writer.renew()
            except MustStop as refusal:
                raise await self._explained(refusal) from error
            # Whether the transaction that went wrong was committed is not known.
            self._remember(None)
        return error

    @property
    def _may_write_again(self) -> bool:
        """Though it may be committed: the marker tells, or a stream asks for no more."""
        return self._settings.checks_marker or self._batch.query_id != NO_QUERY

    async def _given_at_timeout(self) -> ProducerIdAndEpoch | None:
        """The next epoch, if the cluster itself has issued it when it rolled back by timeout.

        Who takes an id over leaves it in another state, or an epoch further.
        """
        if not self.writer.is_initialised:
            return None
        producer_id, epoch = self.writer.producer
        try:
            found = await describe(self._cluster, self.transactional_id)
        except RequestError as refusal:
            if refusal.retriable:
                raise
            return None  # Brokers before 3.0 do not tell.
        given = ProducerIdAndEpoch(found.producer_id, found.producer_epoch)
        is_next = given == (producer_id, epoch + 1)
        return given if is_next and found.state in _ROLLED_BACK else None

    def _timed_out(self, error: Exception) -> TimedOut:
        batch, timeout_ms = self._batch, self._settings.transaction_timeout_ms
        timed_out = TimedOut(
            f"batch {batch.batch_id} of query {batch.query_id} was rolled back by the cluster, as "
            f"its transaction was open for longer than kafka.transaction.timeout.ms "
            f"({timeout_ms}): the driver or a broker stood still, or the batch takes that long; "
            f"in the latter case raise kafka.transaction.timeout.ms, or write less at once"
        )
        timed_out.__cause__ = error
        return timed_out

    async def _explained(self, error: TransactionFailed) -> SemelError:
        """Who has taken the id over, as far as the marker tells."""
        if not isinstance(error.__cause__, ProducerFenced | InvalidProducerEpoch):
            return error
        batch = self._batch
        if self._settings.checks_marker:
            found = await self._stored_by_whoever()
            # Raises where another query or a later batch stands there.
            judge(found, batch, self.transactional_id, is_retry=True)
        fenced = Fenced(
            f"batch {batch.batch_id} of query {batch.query_id} was not written: another driver of "
            f"it has taken the transactional id {self.transactional_id!r} over"
        )
        fenced.__cause__ = error
        return fenced

    async def _stored_by_whoever(self) -> BatchMarker | None:
        if self._home is not None:
            return await stored_marker(self._cluster, self._home)
        found = await find_marker(self._cluster, self._settings, self.transactional_id, self._batch)
        return found.marker

    async def _go_on(self, writer: TransactionalWriter) -> None:
        if await self._cluster.transaction_version() >= IMPLICIT_PARTITIONS:
            # The end of the last transaction has given the next one an epoch of its own.
            self.writer = writer
        else:
            self._continue_as(writer.producer)

    def _continue_as(self, producer: ProducerIdAndEpoch) -> None:
        self.writer = TransactionalWriter(
            self._cluster,
            self.transactional_id,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            producer=producer,
        )

    def _remember(self, committed: BatchMarker | None) -> None:
        self._known = _Known(self._batch.run_id, self.writer, committed, self._home)
        if self._batch.run_id:
            _known[self._key] = self._known

    def forget(self) -> None:
        _known.pop(self._key, None)


async def commit_batch(
    cluster: Cluster,
    settings: SinkSettings,
    transactional_id: str,
    batch: BatchMarker,
    encoded: Iterable[tuple[TopicPartition, Buffer]],
    consumed: Offsets | None = None,
) -> Verdict:
    """Write these batches once, whoever else tries and has tried."""
    prepared = list(encoded)
    work = BatchTransaction(cluster, settings, transactional_id, batch)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                verdict = await work.take_over()
                if verdict is Verdict.WRITE:
                    await work.writer.begin()
                    await work.finish(consumed, prepared)
            except TransactionFailed as error:
                cause = await work.start_over(error)
                if attempt == _ATTEMPTS:
                    raise cause from cause.__cause__
                _log.warning(
                    "batch %d of %s is tried again: %s", batch.batch_id, transactional_id, cause
                )
            else:
                return verdict
    except BaseException:
        # What became of the batch is not known here: the marker tells the next run.
        work.forget()
        raise
    raise AssertionError("unreachable: the last attempt raises")


def _offset_of(marker: BatchMarker) -> GroupOffset:
    return GroupOffset(marker.batch_id + 1, marker_metadata(marker))


def _amount(rows: Sequence[tuple[TopicPartition, Buffer]]) -> Written:
    headers = [record_batch.read(content) for _, content in rows]
    return Written(
        rows=sum(header.record_count for header in headers),
        size=sum(header.size for header in headers),
    )


async def _all_settled(jobs: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Return or raise once none of them is under way, so that nothing comes late to an abort."""
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    failures = [each for each in outcomes if isinstance(each, BaseException)]
    for failure in failures:
        # What an abort mends comes last.
        if not isinstance(failure, MustAbort):
            raise failure
    for failure in failures:
        raise failure


async def _existing(cluster: Cluster, consumed: Offsets) -> dict[TopicPartition, GroupOffset]:
    """Without the topics of other clusters, for which this one takes no offsets."""
    names = {partition.topic for partition in consumed}
    described = await cluster.retry(lambda: cluster.describe(names))
    counts = {name: len(topic.partitions) for name, topic in described.topics.items()}
    return {
        partition: GroupOffset(offset)
        for partition, offset in consumed.items()
        if partition.partition < counts.get(partition.topic, 0)
    }
