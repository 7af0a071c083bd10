"""AlterUserScramCredentials (api key 51), version 0.

What comes is the salted password, of which two keys are kept. Each user's changes succeed or fail
together; those of other users in the same request do not suffer.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from semel.access.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_SIZE_MAX,
    Credential,
    Mechanism,
    of_salted,
)
from semel.access.users import NAME_SIZE_MAX
from semel.broker.answer import Answer, Call, Handled
from semel.errors import (
    DuplicateResource,
    JournalFull,
    RequestError,
    StorageError,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from semel.lane.users import AlterUser
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from semel.wire.rights import ALTER_CLUSTER

if TYPE_CHECKING:
    from semel.broker.broker import Broker

_MECHANISMS: Final = {each.value: each for each in Mechanism}


def alter_user_scram_credentials(
    broker: "Broker", request: AlterUserScramCredentialsRequest, call: Call
) -> Handled:
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion]
    changes = [*request.deletions, *request.upsertions]
    counts = Counter((change.name, change.mechanism) for change in changes)
    twice = {name for (name, _), count in counts.items() if count > 1}
    results = []
    for name in dict.fromkeys(change.name for change in changes):
        error: RequestError | None = None
        try:
            call.require(ALTER_CLUSTER)
            if name in twice:
                raise DuplicateResource(f"user {name!r} is named twice for one mechanism")
            command = _command(name, request)
            broker.lanes.controller.submit(command)
        except RequestError as refusal:
            error = refusal
        except JournalFull as full:
            error = StorageError(str(full))
        else:
            broker.users_changed(name)
            what = "user set" if command.credentials else "user dropped"
            broker.audit.changed(call.caller, what, user=name)
        code = 0 if error is None else error.code
        message = None if error is None else str(error) or None
        results.append(AlterUserScramCredentialsResult(name, code, message))
    return broker.topics.once_heard(Answer(AlterUserScramCredentialsResponse(results=results)))


def _command(name: str, request: AlterUserScramCredentialsRequest) -> AlterUser:
    if not name:
        raise UnacceptableCredential("a user needs a name")
    if len(name.encode()) > NAME_SIZE_MAX:
        raise UnacceptableCredential(f"the name of a user has {NAME_SIZE_MAX} bytes at most")
    return AlterUser(
        name,
        tuple(_credential(change) for change in request.upsertions if change.name == name),
        tuple(_mechanism(change) for change in request.deletions if change.name == name),
    )


def _mechanism(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> Mechanism:
    mechanism = _MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanism(f"there is no SCRAM mechanism {change.mechanism}")
    return mechanism


def _credential(change: ScramCredentialUpsertion) -> Credential:
    mechanism = _mechanism(change)
    if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        raise UnacceptableCredential(
            f"{change.iterations} iterations: between {ITERATIONS_MIN} and {ITERATIONS_MAX}"
        )
    if not 0 < len(change.salt) <= SALT_SIZE_MAX:
        raise UnacceptableCredential(
            f"a salt of {len(change.salt)} bytes: between 1 and {SALT_SIZE_MAX}"
        )
    if len(change.salted_password) != mechanism.key_size:
        raise UnacceptableCredential(
            f"a salted password of {len(change.salted_password)} bytes: "
            f"{mechanism.shown} makes {mechanism.key_size}"
        )
    return of_salted(
        mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations
    )
