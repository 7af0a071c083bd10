"""ListTransactions (api key 66), versions 0-1.

v1  by how long they have been running (KIP-994)
"""

import asyncio
from typing import TYPE_CHECKING, Final

from semel.broker.answer import Answer, Call
from semel.errors import CoordinatorNotAvailable
from semel.transactions.transaction import Status, Transaction
from semel.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from semel.wire.rights import DESCRIBE_ID

if TYPE_CHECKING:
    from semel.broker.broker import Broker

IDS_AT_ONCE: Final = 512
"""Looked at before others have their turn."""


async def list_transactions(
    broker: "Broker", request: ListTransactionsRequest, call: Call
) -> Answer:
    if not broker.nodes.is_leader_known:
        return Answer(ListTransactionsResponse(error_code=CoordinatorNotAvailable.code))
    known = {status.label for status in Status}
    unknown = [state for state in request.state_filters if state not in known]
    listed = []
    for lane in broker.lanes.led:
        for count, each in enumerate(lane.view.transactions(), 1):
            if count % IDS_AT_ONCE == 0:
                await asyncio.sleep(0)
            is_seen = call.may_see(DESCRIBE_ID, each.transactional_id)
            if is_seen and _is_wanted(each, request, lane.view.wall_ms()):
                listed.append(
                    TransactionState(each.transactional_id, each.producer_id, each.status.label)
                )
    response = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)
    return Answer(response)


def _is_wanted(each: Transaction, request: ListTransactionsRequest, wall_ms: int) -> bool:
    if request.state_filters and each.status.label not in request.state_filters:
        return False
    if request.producer_id_filters and each.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter < 0:
        return True
    return each.is_open and wall_ms - each.started_at_ms > request.duration_filter
