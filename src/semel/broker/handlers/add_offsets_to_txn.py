"""AddOffsetsToTxn (api key 25), versions 0-4.

v2  a fenced producer is told PRODUCER_FENCED; v3  flexible encoding

The partition of `__consumer_offsets` that holds the group joins the transaction. Answered once
written: the commit makes it durable.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.transactional import is_epoch_durable, join, refuse_if_late
from semel.errors import CoordinatorNotAvailable, InvalidGroupId, JournalFull, RequestError
from semel.transactions.commands import AddOffsets
from semel.types import ProducerEpoch, ProducerId
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.wire.rights import READ_GROUP, WRITE_ID

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def add_offsets_to_txn(broker: "Broker", request: AddOffsetsToTxnRequest, call: Call) -> Answer:
    producer_id = ProducerId(request.producer_id)
    epoch = ProducerEpoch(request.producer_epoch)
    try:
        call.require(WRITE_ID, request.transactional_id)
        call.require(READ_GROUP, request.group_id)
        refuse_if_late(broker, call, request.transactional_id, producer_id, epoch)
        index = _partition_of(broker, request.group_id)
        lane = broker.coordinators.of_transactional_id(request.transactional_id)
        number = broker.coordinators.lane_of_group(request.group_id)
        others = frozenset({number} - {lane.number})
        command = AddOffsets(producer_id, epoch, index, lanes=others)
        join(broker, call, request.transactional_id, command)
    except RequestError as error:
        return Answer(AddOffsetsToTxnResponse(error_code=error.code))
    is_early = is_epoch_durable(broker, request.transactional_id)
    return Answer(AddOffsetsToTxnResponse(), durable=not is_early)


def _partition_of(broker: "Broker", group_id: str) -> int:
    if not group_id:
        raise InvalidGroupId("a group needs a name")
    try:
        return broker.coordinators.partition_of_group(group_id)
    except JournalFull as error:
        raise CoordinatorNotAvailable(str(error)) from error
