"""The marker: which micro-batch a transactional id has committed last, kept in its transactions.

It is an offset of a consumer group, written in the same transaction as the rows. A batch that is
run again finds its own number there, and is not written a second time. It is read only when
nothing of that group is pending.
"""

import enum
import hashlib
import json
from typing import NamedTuple

from semel.errors import SemelError
from semel.spark.offsets import Offsets

_DIGEST_SIZE = 16

NO_QUERY = "batch"
"""Stands for the query of a batch job, which has none."""


class SinkConflict(SemelError):
    """What the cluster holds says that this batch must not be written here and now."""


class BatchBehind(SinkConflict):
    """A later batch is committed: this driver is a zombie, or its checkpoint was rolled back."""


class SharedTransactionalId(SinkConflict):
    """Two queries write under one transactional id, so that neither can see what it committed."""


class TwoSinks(SinkConflict):
    """Two sinks of one micro-batch have the same transactional id."""


def two_sinks(batch: "BatchMarker", transactional_id: str) -> TwoSinks:
    return TwoSinks(
        f"batch {batch.batch_id} was written under {transactional_id!r} a moment ago: two sinks of "
        f"one micro-batch share it; give the second a name of its own (option name, or another "
        f"transactionalId)"
    )


class Written(NamedTuple):
    """What a batch has brought, for who looks at the query from outside."""

    rows: int = 0
    size: int = 0
    """Bytes, encoded and compressed."""
    at_ms: int = 0
    """When it was about to be committed, by the driver's clock; 0 if that is not known."""
    took_ms: int = 0
    """From when the sink was called until then."""
    since_ms: int = 0
    """When the batch before was; 0 for the first."""
    skipped: int = 0
    """Batches that the query was given again so far, and which were not written twice."""


NOTHING_KNOWN = Written()


class BatchMarker(NamedTuple):
    """A micro-batch of a query, and the run of that query which writes it."""

    query_id: str
    batch_id: int
    run_id: str = ""
    """Empty where it is not known, as in a batch job."""
    consumed: str = ""
    """Tells whether two batches of one number have read the same; empty if it is not known."""
    query_name: str = ""
    written: Written = NOTHING_KNOWN
    offsets_group: str = ""
    """Where the query publishes what it has consumed; empty: in the group of the marker."""


class Verdict(enum.Enum):
    WRITE = "write"
    SKIP = "skip"


def marker_metadata(marker: BatchMarker) -> str:
    fields = {
        "queryId": marker.query_id,
        "batchId": marker.batch_id,
        "runId": marker.run_id,
        "consumed": marker.consumed,
        "queryName": marker.query_name,
        "offsetsGroup": marker.offsets_group,
        **marker.written._asdict(),
    }
    return json.dumps({name: value for name, value in fields.items() if value != ""})


def digest_of(consumed: Offsets | None) -> str:
    """Short enough for the metadata of an offset, of however many partitions."""
    if not consumed:
        return ""
    return hashlib.sha256(repr(sorted(consumed.items())).encode()).hexdigest()[:_DIGEST_SIZE]


def read_marker(offset: int, metadata: str | None) -> BatchMarker:
    """The marker in a committed offset, which is the number of the batch that comes next."""
    try:
        fields = json.loads(metadata or "")
        query_id = str(fields["queryId"])
        numbers = {name: int(fields.get(name, 0)) for name in Written._fields}
        return BatchMarker(
            query_id,
            offset - 1,
            run_id=str(fields.get("runId", "")),
            consumed=str(fields.get("consumed", "")),
            query_name=str(fields.get("queryName", "")),
            written=Written(**numbers),
            offsets_group=str(fields.get("offsetsGroup", "")),
        )
    except (ValueError, KeyError, TypeError):
        raise SinkConflict(
            f"the group of the marker holds the offset {offset} with metadata {metadata!r}, "
            f"which no sink has written: choose another transactionalId"
        ) from None


def judge(
    found: BatchMarker | None,
    batch: BatchMarker,
    transactional_id: str,
    *,
    is_retry: bool = False,
    may_override: bool = False,
) -> Verdict:
    """Whether a batch is to be written, given the marker that stands in the cluster.

    A new query on an old transactional id, as after its checkpoint was deleted, begins with batch
    0 and is written. One that has gone further finds its own marker, unless another query has
    written under its name in the meantime. A run never comes to the same batch twice: if the
    marker is of this very run, another sink has written it, unless this is a retry within it.
    """
    if found is None:
        return Verdict.WRITE
    if found.query_id != batch.query_id:
        if batch.batch_id == 0 or may_override:
            return Verdict.WRITE
        raise SharedTransactionalId(
            f"two queries share this transactional id: {transactional_id!r} was used by query "
            f"{found.query_id} (batch {found.batch_id}) while query {batch.query_id} was at batch "
            f"{batch.batch_id}; give each a transactionalId of its own, or set overrideMarker "
            f"to true to go on with this one"
        )
    if found.batch_id == batch.batch_id:
        if found.run_id and found.run_id == batch.run_id and not is_retry:
            raise two_sinks(batch, transactional_id)
        if not _reads_other_records(found, batch):
            return Verdict.SKIP
    if found.batch_id < batch.batch_id or may_override:
        return Verdict.WRITE
    if batch.query_id == NO_QUERY:
        raise BatchBehind(
            f"batchId is {batch.batch_id}, and {found.batch_id} was committed under "
            f"{transactional_id!r} before: the number of a job's batches has to grow; set "
            f"overrideMarker to true to write this one all the same"
        )
    raise BatchBehind(
        f"batch {batch.batch_id} of query {batch.query_id} comes after batch {found.batch_id} was "
        f"committed under {transactional_id!r}, from other records if the number is the same: "
        f"another driver runs this query, or its checkpoint was rolled back; in the latter case "
        f"set overrideMarker to true to write it once more"
    )


def _reads_other_records(found: BatchMarker, batch: BatchMarker) -> bool:
    """After a roll back by one, Spark plans a batch anew: it holds what has come since as well."""
    return bool(found.consumed and batch.consumed) and found.consumed != batch.consumed
