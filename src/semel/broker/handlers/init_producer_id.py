"""InitProducerId (api key 22), versions 0-5.

v2  flexible encoding; v3  the client may name the producer id it has

A producer without a transactional id gets a producer id that was never given before. Transactional
ids are refused.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import CoordinatorNotAvailable, InvalidRequest, JournalFull
from semel.lane.changes import take_producer_id
from semel.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def init_producer_id(broker: "Broker", request: InitProducerIdRequest, call: Call) -> Answer:
    if request.transactional_id is not None:
        return Answer(InitProducerIdResponse(error_code=InvalidRequest.code, producer_epoch=-1))
    try:
        producer_id, position = take_producer_id(broker.lane)
    except JournalFull:
        code = CoordinatorNotAvailable.code
        return Answer(InitProducerIdResponse(error_code=code, producer_epoch=-1))
    return Answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0), position)
