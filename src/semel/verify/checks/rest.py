"""Partitions at rest: what each holds, and what it may lack."""

from semel.types import TopicPartition
from semel.verify.history import Compacted, History, SeveralNodes, Stored, WholeLog


class LogAtRest:
    """A log need not begin at 0, and a compacted one has gaps."""

    def __init__(self, whole: WholeLog, *, is_compacted: bool) -> None:
        self.records = whole.records
        self.start = whole.log_start_offset
        self.end = whole.high_watermark
        self.is_compacted = is_compacted
        """What it lacks is no anomaly here: which keys it has to hold is another question."""
        self._by_offset = {stored.offset: stored for stored in whole.records}

    def at(self, offset: int) -> Stored | None:
        return self._by_offset.get(offset)

    def may_lack(self, offset: int) -> bool:
        """Whether it is no loss that there is nothing at the offset."""
        if offset < self.start:
            return True
        return self.is_compacted and offset < self.end and offset not in self._by_offset


Logs = dict[TopicPartition, LogAtRest]


def logs_of(history: History) -> Logs:
    """As they were when everything had come to rest for the first time."""
    compacted = compacted_topics(history)
    return {
        whole.partition: LogAtRest(whole, is_compacted=whole.partition.topic in compacted)
        for whole in history.all(WholeLog)
        if whole.round == 0
    }


def compacted_topics(history: History) -> set[str]:
    return {each.topic for each in history.all(Compacted)}


def may_fetch_what_is_old(history: History) -> bool:
    """Who was fenced and does not know it shows a log as it was: true, and not all of it."""
    return any(several.can_be_fenced for several in history.all(SeveralNodes))


def may_be_led_apart(history: History) -> bool:
    """Partitions and who coordinates their transactions lie in several lanes."""
    return any(several.lane_count > 1 for several in history.all(SeveralNodes))
