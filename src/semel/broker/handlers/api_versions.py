"""ApiVersions (api key 18), versions 0-4.

v3  flexible encoding, and the client names itself

A client that asks in a version we do not know is answered in version 0 with the error and the
list, so that it can ask again.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import UnsupportedVersion
from semel.wire import apis
from semel.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker

SERVED = [ApiVersion(api.key, api.advertised_version_min, api.version_max) for api in apis.served()]


def api_versions(
    broker: "Broker", request: ApiVersionsRequest | UnsupportedVersion, call: Call
) -> Answer:
    error_code = request.code if isinstance(request, UnsupportedVersion) else 0
    return Answer(ApiVersionsResponse(error_code, SERVED))
