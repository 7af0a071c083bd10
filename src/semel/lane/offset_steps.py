"""Steps that commit offsets in a transaction: the group joins it in the frame of its offsets."""

from semel.groups import records as group_records
from semel.groups.commands import CommitOffsets, CommitReply, Ticket
from semel.lane.changes import offsets_topic
from semel.lane.lane import Lane
from semel.lane.transaction_steps import BATCH_OVERHEAD, prepare
from semel.records import batch as record_batch
from semel.records.records import Record, encode_batch
from semel.transactions.commands import WriteOffsets
from semel.types import NO_SEQUENCE, TransactionalId

_OWN = Ticket(0)
"""The reply is there at once, so that one ticket serves all."""


def take_offsets_step(
    lane: Lane,
    transactional_id: TransactionalId,
    joining: WriteOffsets,
    command: CommitOffsets,
) -> CommitReply:
    """Decide for the transaction and for the group, append and apply in one step.

    Raises the transaction's refusal or JournalFull; the group's refusals are in the reply.
    """
    topic = offsets_topic(lane)
    at = lane.clock.moment()
    partition = topic.partitions[joining.partition_index]
    current = lane.state.transactions.get(transactional_id)
    step = prepare(lane, current, joining, at)
    size = lane.state.groups.bytes_max(command) + BATCH_OVERHEAD
    draft = lane.draft(step.size + size, owed_change=step.owed_change, at=at)
    decided = lane.state.groups.commit_offsets_in_transaction(command, _OWN, at)
    if decided.records:
        step.add_to(draft)
        records = [Record(*group_records.encode(record), at.wall_ms) for record in decided.records]
        batch = memoryview(
            encode_batch(
                records,
                producer_id=joining.producer_id,
                producer_epoch=joining.producer_epoch,
                base_sequence=NO_SEQUENCE,
                is_transactional=True,
            )
        )
        header = record_batch.read(batch)
        draft.add_batch(partition, header, header.checksum, batch)
        for record in decided.records:
            lane.state.groups.apply(record, at.now_ms, joining.producer_id)
    draft.append()
    ((_, reply),) = decided.replies
    assert isinstance(reply, CommitReply)
    return reply
