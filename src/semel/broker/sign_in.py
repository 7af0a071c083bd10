"""A client signs in (KIP-43, KIP-152), and signs in again when its session ends (KIP-368).

Law: before that no API is served but the three that it takes, and no other request is even decoded;
what the reason of a refusal is stands in our log, and the client hears one sentence, after the same
time, whatever it was.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from semel.access.principal import ANONYMOUS, USER, Caller, Principal
from semel.access.sasl import (
    INVALID_TOKEN,
    Disguise,
    Plain,
    Proven,
    ScramExchange,
    SignInRefused,
    check_authorization,
    read_bearer,
    read_plain,
)
from semel.access.scram import BY_NAME
from semel.access.users import UsersView
from semel.broker.answer import NO_MARKS, Answer, Handled
from semel.broker.between import is_between_nodes
from semel.broker.listeners import OAUTHBEARER, PLAIN, Listener
from semel.broker.reception import Visit
from semel.broker.tls_writing import write_joined
from semel.broker.turns import Turns
from semel.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from semel.wire import apis
from semel.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from semel.broker.bearer import Keys
    from semel.broker.broker import Broker
    from semel.broker.connection import Connection
    from semel.broker.server import Server

REFUSAL: Final = "Authentication failed: these credentials are not accepted"
NONCE_SIZE: Final = 24
KEY_SIZE: Final = 32
HANDSHAKES_SHARE: Final = 0.1
"""Of the loop's time, for all who have not come in."""
CHECKS_SHARE: Final = 0.1
"""Of a core, which those who have come in need as well."""
FIRST_CALL_SIZE_MAX: Final = 2**20
"""Of a node that has not proved yet that it is one."""
REQUESTS_MAX: Final = 32
"""Before somebody has signed in, who needs five."""
_KEY_SIZE: Final = 2
_VERSIONS, _HANDSHAKE, _AUTHENTICATE, _CHALLENGE, _NODE_CALL = (
    key.to_bytes(_KEY_SIZE, "big")
    for key in (apis.API_VERSIONS_KEY, 17, 36, apis.NODE_CHALLENGE.key, apis.NODE_CALL.key)
)


Step = bytes | Proven
"""What the client is to answer, or the end."""
Exchange = Callable[[bytes], Step | Callable[[], Coroutine[Any, Any, Step]]]
"""What is said to a message: at once, or by what has to wait."""


class _UsersAway(Exception):
    """Nobody who knows them can be asked at the moment. The client finds another broker, or comes
    again: it must not hear that its credentials are wrong."""


class Desk:
    """What all sign-ins of a broker share."""

    def __init__(self, broker: "Broker", server: "Server") -> None:
        self.broker = broker
        self.server = server
        self.disguise = Disguise()
        self.key = broker.random_bytes(KEY_SIZE)
        self.sessions: dict[SignIn, None] = {}
        """Of those who have signed in with a password."""
        self.handshakes = Turns(HANDSHAKES_SHARE, one_at_a_time=False)
        self.checks = Turns(CHECKS_SHARE, one_at_a_time=True)
        """Of passwords, each of which takes milliseconds of a core, and of signatures."""
        self._seen: tuple[UsersView, int] | None = None

    def end_sessions_of_deleted(self) -> None:
        users = self.broker.lanes.users
        if users is None:
            return
        seen = self._seen
        if seen is not None and seen[0] is users and seen[1] == users.change_count:
            return
        self._seen = (users, users.change_count)
        for each in tuple(self.sessions):
            each.check_user(users)


class SignIn:
    """The entrance of one connection."""

    def __init__(
        self,
        desk: Desk,
        listener: Listener,
        visit: Visit,
        keys: "Keys | None",
        *,
        has_tls: bool,
    ) -> None:
        """`keys` are those that tokens are signed with, if there are tokens."""
        self._desk = desk
        self._listener = listener
        self._visit = visit
        self._keys = keys
        self._has_tls = has_tls
        self._connection: Connection
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._caller: Caller | None = None
        """As whom somebody has signed in."""
        self._signed_in_by = ""
        self._taken = self._count = 0
        """Bytes and requests since the last sign-in."""
        self._expiry: asyncio.TimerHandle | None = None

    # As the entrance of a connection

    def entered(self, connection: "Connection", transport: asyncio.Transport) -> None:
        self._connection = connection
        self._visit.end = self._end
        if self._has_tls:
            connection.write_parts_by(partial(write_joined, transport))
        connection.sign_in = self
        caller = Caller(ANONYMOUS, self._listener.name, self._visit.host)
        self._hold_back(caller, self._dispatch)

    def _end(self, reason: str) -> None:
        """Also one that is being closed: over TLS that waits for the client."""
        self._connection.close(reason)
        self._connection.abort()

    def left(self, connection: "Connection") -> None:
        self._visit.over()
        self._desk.sessions.pop(self, None)
        if self._expiry is not None:
            self._expiry.cancel()

    def _hold_back(self, caller: Caller, dispatch: "Callable[[bytes, Connection], None]") -> None:
        size_max = self._listener.config.sasl_server_max_receive_size
        self._connection.hold_back(caller, dispatch, size_max)

    # What comes before it is known who sends

    def _dispatch(self, frame: bytes, connection: "Connection") -> None:
        api = frame[:_KEY_SIZE]
        self._taken += len(frame)
        self._count += 1
        if api == _CHALLENGE and self._listener.is_for_nodes and self._caller is None:
            connection.hold_back(connection.caller, self._dispatch_node, FIRST_CALL_SIZE_MAX)
            self._dispatch_node(frame, connection)
        elif api not in (_VERSIONS, _HANDSHAKE, _AUTHENTICATE):
            connection.close("a request of somebody who has not signed in")
        elif self._exchange is not None and api != _AUTHENTICATE:
            connection.close("another request in the middle of a sign-in")
        elif (
            self._taken > self._listener.config.sasl_server_max_receive_size
            or self._count > REQUESTS_MAX
        ):
            connection.close("so much takes no sign-in")
        else:
            self._desk.server.dispatch(frame, connection)

    def _dispatch_node(self, frame: bytes, connection: "Connection") -> None:
        """Another node, which proves by each call that it is one."""
        api = frame[:_KEY_SIZE]
        if not is_between_nodes(frame):
            connection.close("a request of somebody who has not signed in")
            return
        self._desk.server.dispatch(frame, connection)
        if api == _NODE_CALL:
            # It has proved that it is one: what is not signed raises.
            self._visit.over()
            size_max = self._desk.server.request_size_max
            connection.hold_back(connection.caller, self._dispatch_node, size_max)

    def _ignore(self, frame: bytes, connection: "Connection") -> None:
        """The connection ends when its last reply has left."""

    # The two requests

    def handshake(self, mechanism: str) -> Handled:
        """Which one the client would like."""
        offered = list(self._listener.mechanisms)
        if mechanism not in offered:
            return self._refused(
                SaslHandshakeResponse(UnsupportedSaslMechanism.code, offered),
                SignInRefused(f"{mechanism[:80]!r} is not enabled"),
            )
        if self._caller is not None:
            # Nothing else comes until the client has signed in again.
            self._taken = self._count = 0
            self._hold_back(self._caller, self._dispatch)
        self._mechanism = mechanism
        try:
            self._exchange = self._begin(mechanism)
        except _UsersAway:
            return self._away()
        return Answer(SaslHandshakeResponse(0, offered), NO_MARKS)

    def authenticate(self, message: bytes) -> Handled:
        begun_s = self._desk.server.loop.time()
        if self._exchange is None:
            return self._refused(
                SaslAuthenticateResponse(IllegalSaslState.code, "it begins with SaslHandshake"),
                SignInRefused("it does not begin with a handshake"),
            )
        try:
            step = self._exchange(message)
            if isinstance(step, bytes | Proven):
                return self._stepped(step)
        except SignInRefused as refusal:
            return self._fail(refusal, begun_s)
        except _UsersAway:
            return self._away()
        return self._later(step, begun_s)

    async def _later(self, step: Callable[[], Coroutine[Any, Any, Step]], begun_s: float) -> Answer:
        try:
            return self._stepped(await step())
        except SignInRefused as refusal:
            return await self._fail(refusal, begun_s)
        except _UsersAway:
            return self._away()

    def _away(self) -> Answer:
        self._connection.close("the users are not known here at the moment")
        return Answer(None, NO_MARKS)

    def _stepped(self, step: Step) -> Answer:
        """Raises SignInRefused."""
        if isinstance(step, bytes):
            return Answer(SaslAuthenticateResponse(auth_bytes=step), NO_MARKS)
        lifetime_ms = self._come_in(step)
        return Answer(
            SaslAuthenticateResponse(auth_bytes=step.reply, session_lifetime_ms=lifetime_ms),
            NO_MARKS,
        )

    def _fail(self, refusal: SignInRefused, begun_s: float) -> Coroutine[Any, Any, Answer]:
        response = SaslAuthenticateResponse(SaslAuthenticationFailed.code, REFUSAL)
        return self._refused(response, refusal, begun_s)

    async def _refused(
        self, response: Any, refusal: SignInRefused, begun_s: float | None = None
    ) -> Answer:
        """After the same time, whatever it was; then the connection ends."""
        desk, connection = self._desk, self._connection
        loop = desk.server.loop
        self._hold_back(connection.caller, self._ignore)
        desk.broker.audit.sign_in_refused(
            self._listener.name, self._visit.host, self._mechanism, refusal.user, str(refusal)
        )
        desk.broker.metrics.sign_ins_refused += 1
        begun_s = loop.time() if begun_s is None else begun_s
        delay_ms = self._listener.config.connection_failed_authentication_delay_ms
        await asyncio.sleep(max(0.0, begun_s + delay_ms / 1000 - loop.time()))
        task = asyncio.current_task()
        assert task is not None
        # When it is over the reply has been written.
        task.add_done_callback(lambda _: connection.shut())
        return Answer(response, NO_MARKS)

    # Mechanisms

    def _begin(self, mechanism: str) -> Exchange:
        if mechanism == PLAIN:
            return self._plain
        if mechanism == OAUTHBEARER:
            return self._bearer
        nonce = self._desk.broker.random_bytes(NONCE_SIZE).hex()
        exchange = ScramExchange(
            BY_NAME[mechanism], self._users(), self._desk.disguise, self._desk.key, nonce
        )

        def first(message: bytes) -> Step:
            self._exchange = final
            return exchange.first(message)

        def final(message: bytes) -> Step:
            reply = exchange.final(message)
            return Proven(exchange.user, reply, credential=exchange.offered)

        return first

    def _users(self) -> UsersView:
        users = self._desk.broker.lanes.users
        if users is None:
            raise _UsersAway
        return users

    def _plain(self, message: bytes) -> Callable[[], Coroutine[Any, Any, Step]]:
        return partial(self._check_password, read_plain(message))

    async def _check_password(self, said: Plain) -> Step:
        desk = self._desk
        check = desk.disguise.check(self._users(), said.user)
        await desk.checks.begin(self._visit.host)
        loop = desk.server.loop
        begun_s = loop.time()

        def end(_: object) -> None:
            desk.checks.spend(loop.time() - begun_s)
            desk.checks.end()

        checking = loop.run_in_executor(None, check.is_of, said.password)
        # Whoever goes meanwhile does not end the thread, and what it takes counts.
        checking.add_done_callback(end)
        is_right = await asyncio.shield(checking)
        if check.kept is None:
            raise SignInRefused("there is no such user", said.user)
        if not is_right:
            raise SignInRefused("the password is wrong", said.user)
        return Proven(said.user, credential=check.kept)

    def _bearer(self, message: bytes) -> Callable[[], Coroutine[Any, Any, Step]]:
        return partial(self._check_token, message)

    async def _check_token(self, message: bytes) -> Step:
        assert self._keys is not None, "tokens need keys"
        try:
            token, authorization = read_bearer(message)
            claim = await self._keys.claimed(token)
            async with self._desk.checks.turn(self._visit.host):
                proven = self._keys.proven(claim)
            check_authorization(authorization, proven.user)
        except SignInRefused as refusal:
            # Python forgets it at the end of the block.
            reason = refusal

            def ended(message: bytes) -> Step:
                raise reason

            # The client hears it in two steps (RFC 7628).
            self._exchange = ended
            return INVALID_TOKEN
        return proven

    # In

    def _come_in(self, proven: Proven) -> int:
        """How long the session lasts, 0 for ever. Raises SignInRefused."""
        desk, mechanism = self._desk, self._mechanism
        principal = Principal(USER, proven.user)
        before = self._caller
        if before is not None and (
            principal != before.principal or mechanism != self._signed_in_by
        ):
            raise SignInRefused(f"{before.principal} signs in again as another", proven.user)
        credential = proven.credential
        if credential is not None:
            # It may have been long ago that it was looked up: the client says the next step when it
            # likes, and a check waits its turn.
            known = self._users().of(proven.user)
            if known.get(credential.mechanism) != credential:
                what = "password was changed" if known else "user was deleted"
                raise SignInRefused(f"the {what} meanwhile", proven.user)
        self._exchange = None
        self._taken = self._count = 0
        self._visit.over()
        caller = Caller(principal, self._listener.name, self._visit.host)
        self._caller, self._signed_in_by = caller, mechanism
        self._connection.admit(caller)
        desk.broker.metrics.sign_ins += 1
        desk.broker.audit.signed_in(caller, mechanism)
        if credential is not None:
            desk.sessions[self] = None
        lifetime_ms = _least(
            proven.lifetime_ms, self._listener.config.connections_max_reauth_ms or None
        )
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if lifetime_ms:
            self._expiry = desk.server.loop.call_later(lifetime_ms / 1000, self._expire)
        return lifetime_ms

    def _expire(self) -> None:
        """From here on the client may only sign in again."""
        assert self._caller is not None
        self._hold_back(self._caller, self._dispatch_expired)

    def _dispatch_expired(self, frame: bytes, connection: "Connection") -> None:
        if frame[:_KEY_SIZE] in (_HANDSHAKE, _AUTHENTICATE):
            self._dispatch(frame, connection)
            return
        assert self._caller is not None
        self._desk.broker.audit.session_ended(self._caller, "the client did not sign in again")
        connection.abort()

    def check_user(self, users: UsersView) -> None:
        """End the session of one who is no user any more."""
        assert self._caller is not None
        if not self._may_stay(self._caller.principal.name, self._signed_in_by, users):
            self._desk.broker.audit.session_ended(self._caller, "the user was deleted")
            self._connection.abort()

    def _may_stay(self, user: str, mechanism: str, users: UsersView) -> bool:
        credentials = users.of(user)
        if mechanism == PLAIN:
            return bool(credentials)
        return BY_NAME[mechanism] in credentials


def _least(*given_ms: int | None) -> int:
    """Of those that there are; 0 for none."""
    return min((max(1, each) for each in given_ms if each is not None), default=0)
