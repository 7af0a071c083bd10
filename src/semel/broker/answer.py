"""What a handler returns: a response, and the points of the journals it has to wait for."""

from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from semel.access.principal import Caller
from semel.access.rights import UNRESTRICTED, Rights
from semel.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    RequestError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from semel.lane.lane import Lane, Mark
from semel.types import Position
from semel.wire.apis import Api
from semel.wire.rights import CLUSTER_NAME, ResourceType, Right

if TYPE_CHECKING:
    from semel.broker.sign_in import SignIn
    from semel.cluster.session import Session

NO_MARKS: Final[tuple[Mark, ...]] = ()
"""For an answer that was not decided on anything that could still be lost."""


class Answer:
    """Safe as it comes: it leaves when all that is appended by now is durable, in every lane that
    this broker leads, and nobody else can have led any of them before the request came. A handler
    names only the exceptions."""

    __slots__ = ("durable", "marks", "response")

    def __init__(
        self, response: Any, marks: Sequence[Mark] | None = None, *, durable: bool = True
    ) -> None:
        self.response = response
        """The message to send; None: this request is not answered (acks=0)."""
        self.marks = marks
        """Nothing leaves before the journals have reached these marks, None: their present ends…"""
        self.durable = durable
        """…durably; or, if False, have handed them to the kernel."""


NOT_ASKED_FOR: Final = -(2**31)
"""In place of what a client may do, in the answer to who did not ask for that."""

_REFUSALS: Final[dict[ResourceType, type[RequestError]]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


class WithoutTask:
    """An answer that waits for other lanes, as those of each transaction do: by itself, and where
    it waits for more, its coroutine sees to it that it becomes a task (`at_once.py`)."""

    __slots__ = ("answer",)

    def __init__(self, answer: Coroutine[Any, Any, Answer]) -> None:
        self.answer = answer

    def __await__(self) -> Generator[Any, Any, Answer]:
        return self.answer.__await__()


Handled = Answer | Coroutine[Any, Any, Answer] | WithoutTask
"""A handler has decided when it returns. If the answer must wait for others (a fetch for records,
a member for its group), it returns what waits."""


def waiting(handled: Coroutine[Any, Any, Answer] | WithoutTask) -> Coroutine[Any, Any, Answer]:
    """In a task or not."""
    return handled.answer if isinstance(handled, WithoutTask) else handled


class Peer(Protocol):
    """What a handler may know of the connection that a request came on."""

    number: int
    """Connections are numbered as they are accepted."""
    caller: Caller
    """Another value once the client has signed in."""
    rights: Rights
    """What the caller may do."""
    client_host: str
    software: str
    """As which the client has named itself (KIP-511); nothing if it has not."""
    listener: tuple[str, int]
    """The address that the client connected to."""
    told_spent: tuple[int, int, int] | None
    """The last request that was refused because its epoch is spent: producer id, epoch, API."""
    put_off_count: int
    """How often it was put off since, instead of being refused so."""
    was_sent_away: bool
    """A Produce was refused on it, as another node leads."""
    session: "Session | None"
    """With another node of the cluster, if that is who has connected."""
    sign_in: "SignIn | None"
    """Where the client signs in, if it came to a listener where that is asked for."""


class Call:
    """The circumstances of one request."""

    __slots__ = ("_client_id", "api", "correlation_id", "ends", "peer", "version")

    def __init__(
        self,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: bytes | None,
        peer: Peer,
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self._client_id = client_id
        self.peer = peer
        self.ends: Mapping[Lane, Position] | None = None
        """Where the lanes ended that were led when it came; None where nobody else can lead."""

    @property
    def caller(self) -> Caller:
        return self.peer.caller

    def may(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """Whether the caller may do this with a resource of this name. What is refused is told to
        the log."""
        assert right in self.api.rights, f"{self.api.name} asks for {right}, and does not say so"
        return self.peer.rights.may(right, name)

    def may_see(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """As `may`, of what nobody has asked for by its name: it is left out, and not refused."""
        assert right in self.api.rights, f"{self.api.name} asks for {right}, and does not say so"
        return self.peer.rights.may_see(right, name)

    def remembered(self, right: Right) -> Mapping[str, bool]:
        """What is known of it already, by name: for one step, as `may` would say it now."""
        assert right in self.api.rights, f"{self.api.name} asks for {right}, and does not say so"
        return self.peer.rights.remembered(right)

    @property
    def is_unrestricted(self) -> bool:
        """There is no access control: nothing need be asked for."""
        return self.peer.rights is UNRESTRICTED

    def require(self, right: Right, name: str = CLUSTER_NAME) -> None:
        """Raises the refusal. Law: whoever asks for this does so before it looks whether there is
        such a thing, and nothing in the refusal comes from that."""
        if not self.may(right, name):
            raise self.refusal(right, name)

    def refusal(self, right: Right, name: str = CLUSTER_NAME) -> RequestError:
        what = "" if right.resource_type is ResourceType.CLUSTER else f" {name!r}"
        return _REFUSALS[right.resource_type](f"{self.caller.principal} may not: {right}{what}")

    def may_somewhere(self, right: Right) -> bool:
        """With a resource of some name."""
        assert right in self.api.rights, f"{self.api.name} asks for {right}, and does not say so"
        return self.peer.rights.may_somewhere(right)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """What the caller may do with a resource (KIP-430): a bit for each."""
        return self.peer.rights.operations(resource_type, name)

    @property
    def client_id(self) -> str:
        """Read only where it is wanted, as every request brings it.

        What is not UTF-8 is left out: with something in its place, the text could be longer than
        what was sent, and too long for a string that is stored or sent.
        """
        return str(self._client_id or b"", "utf-8", "ignore")
