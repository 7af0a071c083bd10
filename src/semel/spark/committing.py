"""The transaction of one micro-batch, as the driver runs it: take over, look, write, commit.

Order is everything here. Taking the transactional id over ends what a dead driver left open, so
that the marker read afterwards says for certain which batches are committed. The marker is
written in the transaction itself: the rows of a batch and its number appear together.
"""

import logging
import os
from collections.abc import Iterable
from typing import NamedTuple

from semel.client.cluster import Cluster
from semel.client.outcome import MustAbort, MustStop
from semel.client.session import GroupOffset, TransactionalSession
from semel.client.writer import Identity
from semel.errors import InvalidProducerEpoch, ProducerFenced, SemelError
from semel.spark.marker import Marker, Verdict, judge, marker_group, marker_metadata
from semel.spark.marker_store import stored_marker
from semel.spark.offsets import Offsets
from semel.spark.sink_settings import SinkSettings
from semel.types import Buffer, TopicPartition

_log = logging.getLogger(__name__)

_ATTEMPTS = 3


class Fenced(SemelError):
    """Another driver has taken the transactional id over."""


class _Known(NamedTuple):
    run_id: str
    identity: Identity


# Of this process, for as long as Spark reuses it. A run goes on with the epoch it has: were each
# batch to take the id over anew, a zombie that wakes up would fence the living driver.
_known: dict[tuple[int, SinkSettings, str], _Known] = {}


class BatchTransaction:
    """One micro-batch under its transactional id."""

    def __init__(
        self, cluster: Cluster, settings: SinkSettings, transactional_id: str, batch: Marker
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._id = transactional_id
        self._batch = batch
        self._key = (os.getpid(), settings, transactional_id)
        known = _known.get(self._key)
        is_known = known is not None and batch.run_id != "" and known.run_id == batch.run_id
        self._is_first = not is_known
        self.session = TransactionalSession(
            cluster,
            transactional_id,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            identity=known.identity if known is not None and is_known else None,
        )

    async def take_over(self, *, is_retry: bool = False) -> Verdict:
        """Whether the batch is to be written; no one else can write it from now on."""
        if self._is_first:
            await self.session.initialise()
        if not self._settings.checks_marker:
            return Verdict.WRITE
        place = self._settings.marker_place
        found = await stored_marker(self._cluster, self._id, place)
        if found is None and self._is_first and self._batch.batch_id > 0 and not is_retry:
            _log.warning(
                "%s has no marker though batch %d is not the first: it is new here, or the "
                "cluster has let the group %s expire",
                self._id,
                self._batch.batch_id,
                marker_group(self._id),
            )
        verdict = judge(
            found,
            self._batch,
            self._id,
            is_retry=is_retry,
            may_override=self._settings.may_override,
        )
        if verdict is Verdict.SKIP:
            _log.warning(
                "batch %d of %s is committed already: skipped", self._batch.batch_id, self._id
            )
            self.remember()
        return verdict

    async def finish(self, consumed: Offsets | None) -> None:
        """Marker and consumed offsets into the open transaction, and commit."""
        if self._settings.checks_marker:
            marker = GroupOffset(self._batch.batch_id + 1, marker_metadata(self._batch))
            await self.session.send_offsets(
                marker_group(self._id), {self._settings.marker_place: marker}
            )
        if consumed:
            group = self._settings.offsets_group or self._id
            existing = await _existing(self._cluster, consumed)
            if existing:
                await self.session.send_offsets(group, existing)
        await self.session.commit()
        self.remember()

    def remember(self) -> None:
        _known[self._key] = _Known(self._batch.run_id, self.session.identity)

    def forget(self) -> None:
        _known.pop(self._key, None)


async def commit_batch(
    cluster: Cluster,
    settings: SinkSettings,
    transactional_id: str,
    batch: Marker,
    encoded: Iterable[tuple[TopicPartition, Buffer]],
    consumed: Offsets | None = None,
) -> Verdict:
    """Write these batches once, whoever else tries and has tried."""
    prepared = list(encoded)
    work = BatchTransaction(cluster, settings, transactional_id, batch)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            verdict = await work.take_over(is_retry=attempt > 1)
            if verdict is Verdict.SKIP:
                return verdict
            try:
                await work.session.begin()
                await work.session.write(prepared)
                await work.finish(consumed)
            except MustAbort:
                await work.session.abort()
                if attempt == _ATTEMPTS:
                    raise
                _log.warning("batch %d of %s is tried again", batch.batch_id, transactional_id)
            else:
                return verdict
    except MustStop as error:
        work.forget()
        raise await explained(cluster, settings, transactional_id, batch, error) from error
    except BaseException:
        # What became of the batch is not known here: the marker tells the next run.
        work.forget()
        raise
    raise AssertionError("unreachable: the last attempt raises")


async def explained(
    cluster: Cluster,
    settings: SinkSettings,
    transactional_id: str,
    batch: Marker,
    error: MustStop,
) -> SemelError:
    """Who has taken the id over, as far as the marker tells."""
    if not isinstance(error.__cause__, ProducerFenced | InvalidProducerEpoch):
        return error
    if settings.checks_marker:
        found = await stored_marker(cluster, transactional_id, settings.marker_place)
        # Raises where another query or a later batch stands there.
        judge(found, batch, transactional_id, is_retry=True)
    return Fenced(
        f"batch {batch.batch_id} of query {batch.query_id} was not written: another driver of it "
        f"has taken the transactional id {transactional_id!r} over"
    )


async def _existing(cluster: Cluster, consumed: Offsets) -> dict[TopicPartition, GroupOffset]:
    """Without the topics of other clusters, for which this one takes no offsets."""
    described = await cluster.describe({partition.topic for partition in consumed})
    counts = {name: len(topic.partitions) for name, topic in described.topics.items()}
    return {
        partition: GroupOffset(offset)
        for partition, offset in consumed.items()
        if partition.partition < counts.get(partition.topic, 0)
    }
