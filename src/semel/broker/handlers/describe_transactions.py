"""DescribeTransactions (api key 65), version 0."""

from collections import defaultdict
from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError, TransactionalIdNotFound
from semel.types import TransactionalId
from semel.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from semel.wire.rights import DESCRIBE_ID, DESCRIBE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_transactions(
    broker: "Broker", request: DescribeTransactionsRequest, call: Call
) -> Answer:
    states = [_describe(broker, each, call) for each in request.transactional_ids]
    return Answer(DescribeTransactionsResponse(transaction_states=states))


def _describe(broker: "Broker", transactional_id: str, call: Call) -> TransactionState:
    name = TransactionalId(transactional_id)
    try:
        call.require(DESCRIBE_ID, transactional_id)
        current = broker.coordinators.of_transactional_id(name).view.transaction(name)
    except RequestError as error:
        return TransactionState(error.code, transactional_id)
    if current is None:
        return TransactionState(TransactionalIdNotFound.code, transactional_id)
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(current.partitions):
        by_topic[topic].append(index)
    return TransactionState(
        0,
        transactional_id,
        current.status.label,
        current.timeout_ms,
        current.started_at_ms,
        current.producer_id,
        current.producer_epoch,
        [
            TopicData(topic, indexes)
            for topic, indexes in by_topic.items()
            if call.may_see(DESCRIBE_TOPIC, topic)
        ],
    )
