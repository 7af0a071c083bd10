"""ApiVersions (api key 18), versions 0-4.

v3  flexible encoding, the client names itself, and features: transaction.version 2 is what tells
    a client that each transaction has an epoch of its own (KIP-890)

A client that asks in a version we do not know is answered in version 0 with the error and the
list, so that it can ask again.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call
from semel.errors import UnsupportedVersion
from semel.wire import apis
from semel.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

SERVED = [ApiVersion(api.key, api.advertised_version_min, api.version_max) for api in apis.served()]

FEATURE, NEWEST = "transaction.version", 2
SUPPORTED = [SupportedFeatureKey(FEATURE, 0, NEWEST)]
FINALIZED = [FinalizedFeatureKey(FEATURE, NEWEST, NEWEST)]
SOFTWARE_LENGTH_MAX = 64
ZERO_IS_LEGAL_SINCE = 4
"""Clients that ask in v3 refuse a feature whose lowest version is 0."""


def api_versions(
    broker: "Broker", request: ApiVersionsRequest | UnsupportedVersion, call: Call
) -> Answer:
    if isinstance(request, UnsupportedVersion):
        return Answer(ApiVersionsResponse(request.code, SERVED), NO_MARKS)
    call.peer.software = request.client_software_name[:SOFTWARE_LENGTH_MAX]
    return Answer(
        ApiVersionsResponse(
            0,
            SERVED,
            supported_features=SUPPORTED if call.version >= ZERO_IS_LEGAL_SINCE else [],
            finalized_features_epoch=0,
            finalized_features=FINALIZED,
        ),
        NO_MARKS,
    )
