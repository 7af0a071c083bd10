"""CreateAcls (api key 30), versions 1-3.

v1  patterns of names; v2  flexible encoding; v3  resources of a kind of their own for users

Each is refused, as by a Kafka without an authorizer.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call
from semel.broker.handlers.describe_acls import REASON
from semel.errors import SecurityDisabled
from semel.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def create_acls(broker: "Broker", request: CreateAclsRequest, call: Call) -> Answer:
    refused = AclCreationResult(SecurityDisabled.code, REASON)
    return Answer(CreateAclsResponse(results=[refused] * len(request.creations)), NO_MARKS)
