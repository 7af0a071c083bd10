"""Whose turn it is to write to a partition, in one transaction that many tasks write in.

All tasks of a micro-batch write under one producer id and epoch, whose sequences have to follow
each other in each partition. A task that has something for a partition takes a turn, which brings
the next sequence, writes, and gives the turn back.

The law: each sequence is given out once, and the next only after the one before came back; of the
attempts of a task the first that gets a turn is the only one that ever gets any; who leaves within
its turns leaves behind what nobody counted, and ends them for all.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from semel.errors import ProtocolError, SemelError
from semel.types import SEQUENCE_COUNT, TopicPartition


class TurnRefused(SemelError):
    """This attempt of a task may not write, or nobody may any more; or what was written is not
    what Spark has collected."""


class IllegalMove(ProtocolError):
    """A task that keeps to the rules does not do that; nothing was changed."""


class Attempt(NamedTuple):
    """One start of a task."""

    task_number: int
    attempt_id: int


Counts = Mapping[TopicPartition, int]
"""Records by the partition they were written to."""


class Take(Struct, frozen=True, tag="take"):
    partition: TopicPartition
    record_count: int


class GiveBack(Struct, frozen=True, tag="give back"):
    """What was taken is written, and acknowledged."""

    partition: TopicPartition


class Finish(Struct, frozen=True, tag="finish"):
    """Nothing more will be taken."""


class GiveUp(Struct, frozen=True, tag="give up"):
    """It has failed, and leaves."""

    reason: str


Move = Take | GiveBack | Finish | GiveUp


class Granted(Struct, frozen=True, tag="granted"):
    partition: TopicPartition
    sequence: int


class Refused(Struct, frozen=True, tag="refused"):
    reason: str


class Finished(Struct, frozen=True, tag="finished"):
    pass


Answer = Granted | Refused | Finished


class Asker:
    """An attempt, from when it joins until it leaves."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.taken: dict[TopicPartition, int] = {}
        """For how many records it has got turns; they may be written from then on."""
        self.asked: set[TopicPartition] = set()
        """Where it waits for a turn or has one."""
        self.is_finished = False
        self.is_refused = False
        self.failure = "a task of this batch has ended within its turns"


Answers = list[tuple[Asker, Answer]]


class _Waiting(NamedTuple):
    asker: Asker
    record_count: int


class _Queue:
    """Who writes to a partition, and who comes next."""

    def __init__(self) -> None:
        self.next_sequence = 0
        self.holder: Asker | None = None
        self.waiting: deque[_Waiting] = deque()


class PartitionTurns:
    """For one transaction."""

    def __init__(self) -> None:
        self._queues: dict[TopicPartition, _Queue] = defaultdict(_Queue)
        self._present: dict[Asker, None] = {}
        """In the order in which they came."""
        self._writers: dict[int, Asker] = {}
        """By the number of the task, the attempt that has got turns; it stays when it leaves."""
        self._reason: str | None = None
        """Why there are no more turns."""

    def join(self, attempt: Attempt) -> Asker:
        asker = Asker(attempt)
        self._present[asker] = None
        return asker

    def step(self, asker: Asker, move: Move) -> Answers:
        if self._reason is not None:
            return _refuse(asker, self._reason)
        if asker.is_refused:
            return []
        if asker.is_finished:
            raise IllegalMove("it has finished")
        match move:
            case Take(partition, record_count):
                return self._take(asker, partition, record_count)
            case GiveBack(partition):
                return self._give_back(asker, partition)
            case Finish():
                return self._finish(asker)
            case GiveUp(reason):
                asker.failure = f"a task of this batch has failed within its turns: {reason}"
                return []

    def leave(self, asker: Asker) -> Answers:
        self._present.pop(asker)
        for partition in asker.asked:
            queue = self._queues[partition]
            queue.waiting = deque(each for each in queue.waiting if each.asker is not asker)
        if asker.taken and not asker.is_finished:
            # It is not known what it has written, so that nothing may be committed.
            return self.end(asker.failure)
        return []

    def end(self, reason: str) -> Answers:
        """Nobody gets a turn from now on."""
        self._reason = self._reason or reason
        answers: Answers = []
        for asker in self._present:
            if not asker.is_finished:
                answers += _refuse(asker, self._reason)
        return answers

    def check(self, written: Mapping[Attempt, Counts]) -> None:
        """Whether what was written is what these attempts say, and no one else has written."""
        for number, writer in self._writers.items():
            if not writer.is_finished or writer.taken != written.get(writer.attempt):
                raise TurnRefused(f"task {number} has written what its result does not say")
        if len(written) != len(self._writers):
            raise TurnRefused("a task says that it has written, but it had no turn")

    def _take(self, asker: Asker, partition: TopicPartition, record_count: int) -> Answers:
        if record_count < 1:
            raise IllegalMove(f"a turn of {record_count} records in {partition}")
        if partition in asker.asked:
            raise IllegalMove(f"it has asked for {partition} before")
        asker.asked.add(partition)
        self._queues[partition].waiting.append(_Waiting(asker, record_count))
        return self._next_turn(partition)

    def _give_back(self, asker: Asker, partition: TopicPartition) -> Answers:
        queue = self._queues.get(partition)
        if queue is None or queue.holder is not asker:
            raise IllegalMove(f"it is not its turn in {partition}")
        asker.asked.remove(partition)
        queue.holder = None
        return self._next_turn(partition)

    def _finish(self, asker: Asker) -> Answers:
        if asker.asked:
            raise IllegalMove(f"it waits for turns or has some: {sorted(asker.asked)}")
        asker.is_finished = True
        return [(asker, Finished())]

    def _next_turn(self, partition: TopicPartition) -> Answers:
        queue = self._queues[partition]
        answers: Answers = []
        while queue.waiting and queue.holder is None:
            asker, record_count = queue.waiting.popleft()
            number = asker.attempt.task_number
            if self._writers.setdefault(number, asker) is not asker:
                answers += _refuse(
                    asker,
                    f"task {number} was started again, and its first attempt has written: "
                    f"the driver has to begin the batch anew",
                )
                continue
            answers.append((asker, Granted(partition, queue.next_sequence)))
            queue.holder = asker
            queue.next_sequence = (queue.next_sequence + record_count) % SEQUENCE_COUNT
            asker.taken[partition] = asker.taken.get(partition, 0) + record_count
        return answers


def _refuse(asker: Asker, reason: str) -> Answers:
    """Once: who was refused has been told to stop."""
    if asker.is_refused:
        return []
    asker.is_refused = True
    return [(asker, Refused(reason))]
