"""From the journal back to the lane's state: the checkpoint, then every frame behind it.

Frames are applied by the same methods as when they were new, in the same order, so that a process
that has recovered and one that has lived agree.
"""

import msgspec

from semel.errors import CorruptJournal
from semel.groups import records as group_records
from semel.journal.journal import Journal
from semel.lane import facts, frame, image
from semel.lane.state import LaneState
from semel.log.partition import Partition
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.records.control import MarkerType, decode_marker
from semel.records.records import decode_batch
from semel.transactions import records as transaction_records
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Offset, ProducerEpoch, ProducerId, Term


def recover(state: LaneState, journal: Journal) -> None:
    if journal.checkpoint is not None:
        image.restore(journal.checkpoint, state)
    for position, payload in journal.replay():
        at, start = frame.read_head(payload, position)
        for entry in frame.read_entries(payload, start, position):
            if entry.kind == frame.FACT:
                _replay_fact(state, journal, _fact(entry))
            elif entry.kind == frame.BATCH:
                _replay_batch(state, journal, entry, at.now_ms)
            else:
                raise CorruptJournal(f"entry at byte {entry.body_position}: kind {entry.kind}")
        state.passed(at)
    for partition in state.partitions.values():
        partition.settle(partition.log_end_offset)


def _fact(entry: frame.Entry) -> facts.AnyFact:
    try:
        fact: facts.AnyFact = facts.decode(entry.body)
    except msgspec.MsgspecError as error:
        raise CorruptJournal(f"fact at byte {entry.body_position}: {error}") from error
    return fact


def _replay_fact(state: LaneState, journal: Journal, fact: facts.AnyFact) -> None:
    if isinstance(fact, facts.TopicDeleted):
        for partition in state.topics[fact.name].partitions:
            journal.index.drop(partition.number)
    state.apply(fact)


def _replay_batch(state: LaneState, journal: Journal, entry: frame.Entry, now_ms: int) -> None:
    partition = state.partitions.get(entry.partition_number)
    if partition is None:
        raise CorruptJournal(
            f"entry at byte {entry.body_position}: no partition {entry.partition_number}"
        )
    header = record_batch.read(entry.body)
    if header.is_control:
        base_offset = _replay_marker(state, partition, entry.body, now_ms)
    else:
        base_offset = partition.append(
            header, record_batch.fingerprint(header, entry.body), Term(header.leader_epoch), now_ms
        )
        _replay_coordinators(state, partition, header, entry, now_ms)
    if base_offset != header.base_offset:
        raise CorruptJournal(
            f"batch at byte {entry.body_position}: offset {header.base_offset} of "
            f"{partition.topic_partition}, whose log ends at {base_offset}"
        )
    journal.index.add(
        partition.number,
        base_offset,
        entry.body_position,
        len(entry.body),
        header.max_timestamp_ms,
    )


def _replay_marker(
    state: LaneState, partition: Partition, batch: memoryview, now_ms: int
) -> Offset:
    marker = decode_marker(batch)
    if marker is None:
        raise CorruptJournal(f"a control batch of {partition.topic_partition} ends no transaction")
    producer_id = ProducerId(marker.producer_id)
    committed = marker.type is MarkerType.COMMIT
    if partition.topic_partition.topic == OFFSETS_TOPIC:
        state.groups.apply_marker(producer_id, committed)
    return partition.end_transaction(
        producer_id,
        ProducerEpoch(marker.producer_epoch),
        committed,
        Term(marker.coordinator_epoch),
        now_ms,
    )


def _replay_coordinators(
    state: LaneState, partition: Partition, header: BatchHeader, entry: frame.Entry, now_ms: int
) -> None:
    """Batches of the internal topics are what the coordinators know."""
    topic = partition.topic_partition.topic
    if topic == OFFSETS_TOPIC:
        for record in decode_batch(entry.body):
            about_group = group_records.decode(record.key or b"", record.value)
            if about_group is not None:
                state.groups.apply(about_group, now_ms, ProducerId(header.producer_id))
    elif topic == TRANSACTIONS_TOPIC:
        for record in decode_batch(entry.body):
            transaction = transaction_records.decode(record.key or b"", record.value)
            if transaction is not None:
                state.transactions.apply(transaction, now_ms)
