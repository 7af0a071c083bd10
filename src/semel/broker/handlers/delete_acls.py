"""DeleteAcls (api key 31), versions 1-3.

v1  patterns of names; v2  flexible encoding; v3  resources of a kind of their own for users

Each is refused, as by a Kafka without an authorizer.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call
from semel.broker.handlers.describe_acls import REASON
from semel.errors import SecurityDisabled
from semel.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_acls(broker: "Broker", request: DeleteAclsRequest, call: Call) -> Answer:
    refused = DeleteAclsFilterResult(SecurityDisabled.code, REASON)
    return Answer(DeleteAclsResponse(filter_results=[refused] * len(request.filters)), NO_MARKS)
