"""ListOffsets (api key 2), versions 1-11.

v2  read_committed; v4  the client's leader epoch; v6  flexible encoding; v7  timestamp -3
v8  -4, the earliest that lies here: as -2, since there is no other tier; v9  -5, the latest of
another tier: nothing; v10  how long another tier may be waited for; v11  -6, the earliest that is
to go there: nothing

The end of a partition is its durable end; for read_committed, where its first open transaction
begins. A timestamp finds the first record at or after it, which means opening the one batch that
holds it.

Where a leader before may have shown more of what is committed than is known here yet (rule 30),
read_committed is refused an end, and a record that is not found before it.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call, Handled
from semel.errors import (
    CorruptJournal,
    CorruptMessage,
    LeaderNotAvailable,
    OffsetNotAvailable,
    RequestError,
    StorageError,
    UnsupportedVersion,
)
from semel.lane.lane import Lane
from semel.lane.searches import TimedRecord
from semel.lane.view import PartitionView
from semel.types import Offset, TopicPartition
from semel.wire.apis import NEVER
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from semel.wire.rights import DESCRIBE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(
    -1, -7, -1
)
SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version in which a timestamp that is no time has a meaning."""
AT_ONCE = frozenset(SINCE) - {MAX_TIMESTAMP}
READ_COMMITTED = 1
NOT_AVAILABLE_SINCE = 5
"""Before, clients do not know that an end may not be known."""
NOT_FOUND = TimedRecord(timestamp_ms=-1, offset=-1, leader_epoch=-1)


def list_offsets(broker: "Broker", request: ListOffsetsRequest, call: Call) -> Handled:
    ends_only = all(
        wanted.timestamp in AT_ONCE for topic in request.topics for wanted in topic.partitions
    )
    searches = _Searches(broker, request, call)
    return searches.answer_at_once() if ends_only else searches.answer()


class _Searches:
    """What one request asks for; a search by time reads batches."""

    def __init__(self, broker: "Broker", request: ListOffsetsRequest, call: Call) -> None:
        self._broker = broker
        self._request = request
        self._call = call
        self._version = call.version

    def answer_at_once(self) -> Answer:
        return self._answer(
            [
                [self._end(topic.name, wanted) for wanted in topic.partitions]
                for topic in self._request.topics
            ]
        )

    async def answer(self) -> Answer:
        return self._answer(
            [
                [await self._search(topic.name, wanted) for wanted in topic.partitions]
                for topic in self._request.topics
            ]
        )

    def _answer(self, found: list[list[ListOffsetsPartitionResponse]]) -> Answer:
        topics = [
            ListOffsetsTopicResponse(topic.name, partitions)
            for topic, partitions in zip(self._request.topics, found, strict=True)
        ]
        return Answer(ListOffsetsResponse(topics=topics))

    def _end(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        try:
            lane, partition, bound = self._partition(topic, wanted)
        except RequestError as error:
            return ListOffsetsPartitionResponse(wanted.partition_index, error.code)
        epoch = lane.view.epoch
        if wanted.timestamp == LATEST:
            found = TimedRecord(-1, bound, epoch)
        elif wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            found = NOT_FOUND
        else:
            start = partition.log_start_offset
            found = TimedRecord(-1, start, partition.term_at(start, epoch))
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, *found)

    async def _search(
        self, topic: str, wanted: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        timestamp_ms = wanted.timestamp
        if timestamp_ms in AT_ONCE:
            return self._end(topic, wanted)
        try:
            lane, partition, bound = self._partition(topic, wanted)
        except RequestError as error:
            return ListOffsetsPartitionResponse(wanted.partition_index, error.code)
        is_end_known = self._is_end_known(lane, partition)
        try:
            if timestamp_ms == MAX_TIMESTAMP:
                found = await lane.log.youngest(partition, bound)
            else:
                found = await lane.log.find_time(partition, timestamp_ms, bound)
            lane.check_leads()
            if not is_end_known and (found is None or timestamp_ms == MAX_TIMESTAMP):
                # A leader before may have shown such a record behind this bound.
                raise self._end_not_known()
            # It may have been taken from the client while this was searched.
            self._call.require(DESCRIBE_TOPIC, topic)
        except RequestError as refusal:
            return ListOffsetsPartitionResponse(wanted.partition_index, refusal.code)
        except (CorruptJournal, CorruptMessage, OSError) as error:
            # The client's other partitions may be whole: only this one cannot be searched.
            self._broker.found_unreadable(partition.topic_partition, error)
            return ListOffsetsPartitionResponse(wanted.partition_index, StorageError.code)
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, *(found or NOT_FOUND))

    @property
    def _is_committed(self) -> bool:
        return self._request.isolation_level == READ_COMMITTED

    def _is_end_known(self, lane: Lane, partition: PartitionView) -> bool:
        return not self._is_committed or lane.view.knows_stable_end(partition.topic_partition)

    def _end_not_known(self) -> RequestError:
        reason = "how a transaction over lanes has ended is being asked for"
        if self._version < NOT_AVAILABLE_SINCE:
            return LeaderNotAvailable(reason)
        return OffsetNotAvailable(reason)

    def _partition(
        self, topic: str, wanted: ListOffsetsPartition
    ) -> tuple[Lane, PartitionView, Offset]:
        """The partition, its lane, and where it ends for this reader."""
        self._call.require(DESCRIBE_TOPIC, topic)
        timestamp_ms = wanted.timestamp
        if timestamp_ms < 0 and self._version < SINCE.get(timestamp_ms, NEVER):
            raise UnsupportedVersion(f"timestamp {timestamp_ms} has no meaning")
        lane, partition = self._broker.lanes.of(TopicPartition(topic, wanted.partition_index))
        lane.view.check_leader_epoch(wanted.current_leader_epoch)
        if self._is_committed:
            if timestamp_ms == LATEST and not self._is_end_known(lane, partition):
                raise self._end_not_known()
            return lane, partition, partition.last_stable_offset
        return lane, partition, partition.high_watermark
