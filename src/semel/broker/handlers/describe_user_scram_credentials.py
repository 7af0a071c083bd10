"""DescribeUserScramCredentials (api key 50), version 0: which users there are, and how their
credentials were made. What is kept of a password is shown to nobody.
"""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from semel.access.users import UsersView
from semel.broker.answer import Answer, Call
from semel.errors import DuplicateResource, NotController, ResourceNotFound
from semel.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from semel.wire.rights import DESCRIBE_CLUSTER

if TYPE_CHECKING:
    from semel.broker.broker import Broker


USERS_AT_ONCE: Final = 512
"""Looked at before others have their turn."""


async def describe_user_scram_credentials(
    broker: "Broker", request: DescribeUserScramCredentialsRequest, call: Call
) -> Answer:
    if not call.may(DESCRIBE_CLUSTER):
        return _refusal(call)
    users = broker.lanes.users
    if users is None:
        response = DescribeUserScramCredentialsResponse(
            error_code=NotController.code, error_message="the users are led elsewhere"
        )
        return Answer(response)
    asked_for = [each.name for each in request.users or ()]
    names = asked_for or sorted(users)
    counts = Counter(names)
    results = []
    for number, (name, count) in enumerate(counts.items(), 1):
        if number % USERS_AT_ONCE == 0:
            await asyncio.sleep(0)
        # Somebody may have gone meanwhile.
        if asked_for or users.of(name):
            results.append(_described(users, name, is_twice=count > 1))
    # It may have been taken from the client meanwhile.
    if not call.may(DESCRIBE_CLUSTER):
        return _refusal(call)
    return Answer(DescribeUserScramCredentialsResponse(results=results))


def _refusal(call: Call) -> Answer:
    refusal = call.refusal(DESCRIBE_CLUSTER)
    return Answer(
        DescribeUserScramCredentialsResponse(error_code=refusal.code, error_message=str(refusal))
    )


def _described(
    users: UsersView, name: str, *, is_twice: bool
) -> DescribeUserScramCredentialsResult:
    if is_twice:
        return DescribeUserScramCredentialsResult(
            name, DuplicateResource.code, f"user {name!r} is asked for twice"
        )
    credentials = users.of(name)
    if not credentials:
        return DescribeUserScramCredentialsResult(
            name, ResourceNotFound.code, f"there is no user {name!r}"
        )
    return DescribeUserScramCredentialsResult(
        name,
        credential_infos=[
            CredentialInfo(mechanism.value, credentials[mechanism].iterations)
            for mechanism in sorted(credentials)
        ],
    )
