"""Bugs to plant into the broker from outside, each the absence of one rule of the law."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from semel.broker.answer import NO_MARKS, Answer
from semel.broker.handlers import offset_fetch, produce
from semel.broker.server import Server
from semel.journal import frames
from semel.journal.file import note, recovery, walk
from semel.journal.file.commit import GroupCommit
from semel.journal.file.device import DiskIdentity
from semel.journal.file.journal import FileJournal
from semel.journal.file.segments import Segments
from semel.lane import facts, frame, group_commands, opening
from semel.lane.commands import Decided
from semel.lane.frame import pack_batch
from semel.lane.lane import Lane
from semel.lane.producing import TakeProducerId
from semel.lane.state import LaneState
from semel.lane.topics import GrowTopic
from semel.log import producers
from semel.log.partition import Partition
from semel.records import records
from semel.types import ProducerId
from support.inside import journal_of

Patch = pytest.MonkeyPatch


class Bug(NamedTuple):
    rule: int
    plant: Callable[[Patch], None]
    symptom: str
    """A regular expression that an anomaly must match."""
    first_seed: int = 0
    """Where to begin, for a bug that few seeds show."""


# Rule 1: readers and replies


def the_watermark_moves_when_a_batch_is_appended(patch: Patch) -> None:
    append = Lane._append

    def eager(self: Lane, *arguments: Any) -> None:
        append(self, *arguments)
        for _, number, _ in self._unread:
            partition = self._state.partitions.get(number)
            if partition is not None:
                partition.advance_high_watermark(partition.log_end_offset)

    patch.setattr(Lane, "_append", eager)


def replies_leave_when_written(patch: Patch) -> None:
    answer = Server._answer

    def early(self: Server, request: Any, answered: Any, reply: Any, connection: Any) -> None:
        answered.durable = False
        answer(self, request, answered, reply, connection)

    patch.setattr(Server, "_answer", early)


def the_watermark_moves_behind_the_replies(patch: Patch) -> None:
    move = Lane._on_durable

    def late(self: Lane, position: Any) -> None:
        asyncio.get_running_loop().call_later(0.05, move, self, position)

    patch.setattr(Lane, "_on_durable", late)


def a_duplicate_does_not_wait_for_its_original(patch: Patch) -> None:
    handle = produce.produce

    def hasty(broker: Any, request: Any, call: Any) -> Any:
        end = journal_of(broker).end
        answered = handle(broker, request, call)
        if isinstance(answered, Answer) and journal_of(broker).end == end:
            return Answer(answered.response, NO_MARKS)
        return answered

    patch_route(patch, 0, hasty)


def offsets_are_read_before_they_are_durable(patch: Patch) -> None:
    handle = offset_fetch.offset_fetch

    def hasty(broker: Any, request: Any, call: Any) -> Answer:
        return Answer(handle(broker, request, call).response, NO_MARKS)

    patch_route(patch, 9, hasty)


# Rule 2: the term


def any_boot_is_the_same_boot(patch: Patch) -> None:
    patch.setattr(DiskIdentity, "proves_same", lambda self, noted: True)


def an_io_error_leaves_no_doubt(patch: Patch) -> None:
    patch.setattr(note.LastNote, "failed", False)


def the_term_rises_at_every_start(patch: Patch) -> None:
    patch.setattr(DiskIdentity, "proves_same", lambda self, noted: False)


# Rules 5, 6: the journal


def frames_behind_a_hole_come_back(patch: Patch) -> None:
    follow = walk.Walk._next

    def leap(self: walk.Walk, reader: walk.SegmentReader, limit: int) -> walk.StoredFrame | None:
        frame = follow(self, reader, limit)
        offset = self.end - reader.base
        stored = bytes(reader.view(0, reader.size))
        while frame is None and (offset := stored.find(frames.MAGIC, offset + 1)) >= 0:
            frame, _ = walk.frame_at(reader, offset, limit)
        return frame

    patch.setattr(walk.Walk, "_next", leap)


def a_failed_sync_is_ignored(patch: Patch) -> None:
    landed = GroupCommit._on_synced

    def blind(self: GroupCommit, target: Any, names: Any, error: Any) -> None:
        landed(self, target, names, None)

    patch.setattr(GroupCommit, "_on_synced", blind)


def the_tail_is_not_written_again(patch: Patch) -> None:
    patch.setattr(recovery, "_rewrite", lambda *_: None)


def what_no_one_waits_for_is_not_synced(patch: Patch) -> None:
    patch.setattr(GroupCommit, "_on_interval", lambda self: setattr(self, "_interval", None))


# Rule 7: room


def room_is_not_reserved(patch: Patch) -> None:
    patch.setattr(Segments, "require", lambda self, end, frame_size, kept_size: None)


# Rule 8: checkpoints


def a_checkpoint_precedes_its_frames(patch: Patch) -> None:
    def early(self: FileJournal, checkpoint: Any) -> None:
        self._background.publish(checkpoint)

    patch.setattr(FileJournal, "_publish_when_durable", early)


# Rule 9: what lasts is in frames


def generations_are_not_written(patch: Patch) -> None:
    encode = records.encode_batch

    def forgetful(records: Any, **options: Any) -> bytes:
        """As many records as before, but those of generations say nothing."""
        blank = [
            each._replace(key=b"\x00\x7f") if each.key[:2] == b"\x00\x02" else each
            for each in records
        ]
        return encode(blank, **options)

    patch.setattr(group_commands, "encode_batch", forgetful)


def producer_ids_are_not_written(patch: Patch) -> None:
    def forgetful(self: TakeProducerId, state: LaneState, *_: Any) -> Decided[Any]:
        taken = state.next_producer_id
        state.next_producer_id = ProducerId(taken + 1)
        return Decided(taken)

    patch.setattr(TakeProducerId, "decide", forgetful)


# Rule 11: duplicates


def a_duplicate_is_known_by_its_numbers_alone(patch: Patch) -> None:
    duplicate_of = producers.Producer.duplicate_of

    def by_numbers(
        self: producers.Producer, epoch: Any, first: Any, last: Any, fingerprint: int
    ) -> Any:
        for batch in self.taken if epoch == self.epoch else ():
            if (batch.first_sequence, batch.last_sequence) == (first, last):
                return batch.base_offset
        return duplicate_of(self, epoch, first, last, fingerprint)

    patch.setattr(producers.Producer, "duplicate_of", by_numbers)


def retries_are_stored_again(patch: Patch) -> None:
    patch.setattr(Partition, "admit", lambda *_, **__: None)


def producers_are_forgotten_by_a_restart(patch: Patch) -> None:
    rebuild = opening.rebuild

    def forgetful(state: LaneState, journal: FileJournal) -> None:
        rebuild(state, journal)
        for partition in state.partitions.values():
            partition.producers.clear()

    patch.setattr("semel.lane.lane.rebuild", forgetful)


# Rule 13: leader epochs


def leader_epochs_are_not_stamped(patch: Patch) -> None:
    patch.setattr("semel.lane.frame.pack_batch", lambda *fields: pack_batch(*fields[:-1], -1))


def a_term_ends_where_the_log_does(patch: Patch) -> None:
    end_of_term = Partition.end_of_term

    def vague(self: Partition, term: int, current: Any) -> Any:
        return end_of_term(self, term, current)._replace(offset=self.high_watermark)

    patch.setattr(Partition, "end_of_term", vague)


def any_leader_epoch_may_fetch(patch: Patch) -> None:
    patch.setattr("semel.lane.view.check_leader_epoch", lambda claimed, term: None)


# Rule 14: internal topics


def clients_may_write_to_internal_topics(patch: Patch) -> None:
    patch.setattr("semel.lane.catalogue.INTERNAL_TOPICS", frozenset())


# What every rule rests on


def topics_are_not_written(patch: Patch) -> None:
    decide = GrowTopic.decide

    def forgetful(self: GrowTopic, state: LaneState, at: Any, environment: Any) -> Decided[None]:
        decided = decide(self, state, at, environment)
        if decided.frame is not None:
            state.apply(decided.frame)
        return Decided(None)

    patch.setattr(GrowTopic, "decide", forgetful)


def a_deletion_is_forgotten_at_replay(patch: Patch) -> None:
    decode = frame.decode

    def forgetful(payload: memoryview, position: Any) -> Any:
        read = decode(payload, position)
        read.entries = [
            entry for entry in read.entries if not isinstance(entry, facts.TopicDeleted)
        ]
        return read

    patch.setattr(opening, "decode", forgetful)


def patch_route(patch: Patch, key: int, handler: Callable[..., Any]) -> None:
    """Handlers are found through a table that is filled at their first use."""
    from semel.broker import dispatch

    patch.setitem(dispatch._routes, key, dispatch.route(key)._replace(handler=handler))


SHOWN_AND_GONE = r"was shown .* at the end|was said to end at .* known before"
LOST = r"was acknowledged \(acks=-1\)"
TOO_EARLY = LOST + r"|was said to end at .* known before"
DAMAGED = LOST + r"|could not open|CorruptMessage|was shown"

BUGS = (
    Bug(1, the_watermark_moves_when_a_batch_is_appended, SHOWN_AND_GONE),
    Bug(1, replies_leave_when_written, TOO_EARLY),
    Bug(1, the_watermark_moves_behind_the_replies, r"was said to end at .* known before"),
    Bug(1, a_duplicate_does_not_wait_for_its_original, TOO_EARLY),
    Bug(1, offsets_are_read_before_they_are_durable, r"had \d+ committed", first_seed=20),
    Bug(2, any_boot_is_the_same_boot, r"the term stayed"),
    Bug(2, an_io_error_leaves_no_doubt, r"the term stayed"),
    Bug(2, the_term_rises_at_every_start, r"the term rose .* without a loss"),
    Bug(5, frames_behind_a_hole_come_back, DAMAGED, first_seed=55),
    Bug(6, a_failed_sync_is_ignored, DAMAGED),
    Bug(6, the_tail_is_not_written_again, DAMAGED),
    Bug(6, what_no_one_waits_for_is_not_synced, r"at rest|was acknowledged"),
    Bug(7, room_is_not_reserved, r"ended by itself|an exception was left", first_seed=180),
    Bug(8, a_checkpoint_precedes_its_frames, DAMAGED, first_seed=30),
    Bug(9, generations_are_not_written, r"went back|belongs to"),
    Bug(9, producer_ids_are_not_written, r"producer id \d+ was given"),
    Bug(11, a_duplicate_is_known_by_its_numbers_alone, LOST),
    Bug(11, retries_are_stored_again, r"twice or out of order"),
    Bug(11, producers_are_forgotten_by_a_restart, r"twice or out of order"),
    Bug(13, leader_epochs_are_not_stamped, r"."),
    Bug(13, a_term_ends_where_the_log_does, r"was said to end at \d+, and ends at"),
    Bug(13, any_leader_epoch_may_fetch, r"it was not refused: a fetch in term"),
    Bug(14, clients_may_write_to_internal_topics, r"a client has written to __consumer_offsets"),
    Bug(9, topics_are_not_written, r"."),
    Bug(9, a_deletion_is_forgotten_at_replay, r"was deleted and is there|could not open"),
)
