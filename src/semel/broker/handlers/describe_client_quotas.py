"""DescribeClientQuotas (api key 48), versions 0-1.

v1  flexible encoding

There are no quotas, and none can be set.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call
from semel.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_client_quotas(
    broker: "Broker", request: DescribeClientQuotasRequest, call: Call
) -> Answer:
    return Answer(DescribeClientQuotasResponse(entries=[]), NO_MARKS)
