"""ListPartitionReassignments (api key 46), version 0.

A partition stays where it is, so that none is ever on its way.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call
from semel.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from semel.wire.rights import DESCRIBE_CLUSTER

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def list_partition_reassignments(
    broker: "Broker", request: ListPartitionReassignmentsRequest, call: Call
) -> Answer:
    if not call.may(DESCRIBE_CLUSTER):
        refusal = call.refusal(DESCRIBE_CLUSTER)
        refused = ListPartitionReassignmentsResponse(
            error_code=refusal.code, error_message=str(refusal)
        )
        return Answer(refused, NO_MARKS)
    return Answer(ListPartitionReassignmentsResponse(), NO_MARKS)
