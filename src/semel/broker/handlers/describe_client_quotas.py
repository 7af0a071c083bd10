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
from semel.wire.rights import DESCRIBE_CLUSTER_CONFIGS

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_client_quotas(
    broker: "Broker", request: DescribeClientQuotasRequest, call: Call
) -> Answer:
    if not call.may(DESCRIBE_CLUSTER_CONFIGS):
        refusal = call.refusal(DESCRIBE_CLUSTER_CONFIGS)
        refused = DescribeClientQuotasResponse(
            error_code=refusal.code, error_message=str(refusal), entries=None
        )
        return Answer(refused, NO_MARKS)
    return Answer(DescribeClientQuotasResponse(entries=[]), NO_MARKS)
