"""DescribeAcls (api key 29), versions 1-3.

v1  patterns of names; v2  flexible encoding; v3  resources of a kind of their own for users

There are no access lists: answered as by a Kafka without an authorizer.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call
from semel.errors import SecurityDisabled
from semel.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker

REASON = "there are no access lists: whoever reaches this broker may do everything"


def describe_acls(broker: "Broker", request: DescribeAclsRequest, call: Call) -> Answer:
    refused = DescribeAclsResponse(error_code=SecurityDisabled.code, error_message=REASON)
    return Answer(refused, NO_MARKS)
