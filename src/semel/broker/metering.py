"""Holds clients to their quotas: what a request used is counted, and who used too much has to wait.

Such a request is answered at once, and says for how long its connection is not read from then. So
nothing is kept for a client that waits, and one that does not mind the answer waits as well.

Law: while no quota is set, nothing of this is on the way of a request.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from semel.access.origin import counted_as
from semel.access.quotas import NAME_SIZE_MAX, OF_CLIENTS, Kind, QuotasView, Share
from semel.access.rate import Rate, Windows
from semel.broker.answer import Answer, Call, Handled, waiting
from semel.broker.dispatch import Handler, read_request
from semel.wire.apis import BETWEEN_NODES
from semel.wire.primitives import records_size

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.connection import Connection
    from semel.wire.messages.fetch import FetchResponse
    from semel.world import Clock

PRODUCE: Final = 0
FETCH: Final = 1
INT32_MAX: Final = 2**31 - 1
COUNTED_MAX: Final = 10_000
"""Clients and addresses that are counted. Clients name themselves: with more of them those are
forgotten that were counted first, and not users, who have signed in."""
LIMITS_MAX: Final = 4_096
"""Of clients that are remembered, so that they need not be looked up with each request."""
_NS_PER_PERCENT: Final = 1e7
"""Of a second."""


class Meter(NamedTuple):
    rate: Rate
    bound: float


class Limits(NamedTuple):
    """What counts for the clients of one user with one client id."""

    produced: Meter | None
    consumed: Meter | None
    requests: Meter | None


UNLIMITED: Final = Limits(None, None, None)


class Metering:
    def __init__(self, clock: "Clock", spent_ns: Callable[[], int], windows: Windows) -> None:
        """`spent_ns` is a clock that tells how long a request takes."""
        self._clock = clock
        self.spent_ns = spent_ns
        self.windows = windows
        self._quotas: QuotasView | None = None
        self._change_count = -1
        self.limits_clients = False
        """There is a quota that requests have to be counted for."""
        self.limits_addresses = False
        self._rates: dict[tuple[Kind, Share], Rate] = {}
        """In the order in which they were first counted."""
        self._limits: dict[tuple[str, str], Limits] = {}
        self._connections: dict[str, Rate] = {}
        self.throttled: dict[Kind, int] = dict.fromkeys(Kind, 0)
        """How often somebody had to wait, or was not let in."""

    def follow(self, quotas: QuotasView | None) -> bool:
        """These are the quotas now, if anybody knows them; else those that were known count. Gives
        whether they have changed."""
        if quotas is None or (quotas is self._quotas and quotas.change_count == self._change_count):
            return False
        self._quotas, self._change_count = quotas, quotas.change_count
        self._limits.clear()
        names = {name for entity in quotas for name in quotas.of(entity)}
        self.limits_clients = not names.isdisjoint(OF_CLIENTS)
        self.limits_addresses = Kind.CONNECTIONS.value in names
        return True

    # Connections

    def lets_in(self, host: str) -> bool:
        """Whether one more connection from there is within the quota. One that is not let in does
        not count."""
        if not self.limits_addresses:
            return True
        assert self._quotas is not None
        bound, is_own = self._quotas.connection_rate(host)
        if bound is None:
            return True
        now_ms = self._clock.monotonic_ms()
        # Whoever has a network of IPv6 could come from another address of it each time.
        ip = host if is_own else counted_as(host)
        rate = self._connections.get(ip)
        if rate is None:
            _make_room(self._connections, now_ms, lambda ip: True)
            rate = self._connections[ip] = Rate(self.windows)
        rate.use(1, now_ms)
        if rate.per_second(now_ms) <= bound:
            return True
        rate.use(-1, now_ms)
        self.throttled[Kind.CONNECTIONS] += 1
        return False

    # Requests

    def limits_of(self, call: Call) -> Limits:
        client = call.caller.principal.name, call.client_id[:NAME_SIZE_MAX]
        known = self._limits.get(client)
        if known is None:
            if len(self._limits) >= LIMITS_MAX:
                self._limits.clear()
            produced, consumed, requests = (
                self._meter(kind, *client) for kind in (Kind.PRODUCED, Kind.CONSUMED, Kind.REQUESTS)
            )
            known = self._limits[client] = Limits(produced, consumed, requests)
        return known

    def _meter(self, kind: Kind, user: str, client_id: str) -> Meter | None:
        assert self._quotas is not None
        limit = self._quotas.limit(kind, user, client_id)
        if limit is None:
            return None
        key = kind, limit.share
        rate = self._rates.get(key)
        if rate is None:
            # Who is remembered has a rate that may be forgotten here.
            if _make_room(self._rates, self._clock.monotonic_ms(), _is_named_by_client):
                self._limits.clear()
            rate = self._rates[key] = Rate(self.windows)
        return Meter(rate, limit.bound)

    def used(self, kind: Kind, meter: Meter, amount: float) -> int:
        """Count it, and give how many milliseconds have to be waited then."""
        now_ms = self._clock.monotonic_ms()
        meter.rate.use(amount, now_ms)
        throttle_ms = meter.rate.throttle_ms(meter.bound, now_ms)
        if kind is Kind.REQUESTS:
            # As in Kafka: its clients would take a longer wait for a broker that is gone.
            throttle_ms = min(throttle_ms, self.windows.size_ms)
        if throttle_ms:
            self.throttled[kind] += 1
        return throttle_ms

    def used_besides(self, meter: Meter, amount: float) -> None:
        """Count what nobody can be told to wait for any more."""
        meter.rate.use(amount, self._clock.monotonic_ms())


def _is_named_by_client(key: tuple[Kind, Share]) -> bool:
    return bool(key[1].client_id)


def _make_room(rates: dict[Any, Rate], now_ms: int, may_go: Callable[[Any], bool]) -> bool:
    """For one more; whether any were forgotten. Those that are idle go, or the older half."""
    if len(rates) < COUNTED_MAX:
        return False
    for key in [key for key, rate in rates.items() if rate.is_idle(now_ms)]:
        del rates[key]
    if len(rates) >= COUNTED_MAX // 2:
        named = [key for key in rates if may_go(key)]
        for key in named[: len(named) // 2]:
            del rates[key]
    return True


class MeteredRequest:
    """One request on its way through the broker. The time between its steps is not its own."""

    def __init__(self, metering: Metering) -> None:
        self._metering = metering
        self._limits = UNLIMITED
        self._size = 0
        self._connection: Connection | None = None
        self._spent_ns = 0
        self._began_ns = metering.spent_ns()

    def read(self, frame: bytes, connection: "Connection") -> tuple[Call, Any, Handler]:
        """As `read_request`, for a handler that is counted."""
        call, body, handler = read_request(frame, connection)
        if call.api.key in BETWEEN_NODES:
            return call, body, handler
        limits = self._metering.limits_of(call)
        if limits == UNLIMITED:
            return call, body, handler
        self._limits = limits
        self._size = len(frame)
        self._connection = connection
        self.stop()
        return call, body, partial(self._handle, handler)

    def _handle(self, handler: Handler, broker: "Broker", body: Any, call: Call) -> Handled:
        consumed = self._limits.consumed
        if consumed is not None and call.api.key == FETCH:
            # More would have to be waited for in any case.
            body.max_bytes = min(body.max_bytes, int(consumed.bound * self._metering.windows.most))
        self.start()
        handled = handler(broker, body, call)
        self.stop()
        if isinstance(handled, Answer):
            self.answered(call, handled)
            self.start()
            return handled
        return _Timed(self, waiting(handled), call)

    def start(self) -> None:
        self._began_ns = self._metering.spent_ns()

    def stop(self) -> None:
        now_ns = self._metering.spent_ns()
        self._spent_ns += now_ns - self._began_ns
        self._began_ns = now_ns

    def end(self) -> None:
        """It waits, or is decided and encoded: what that took counts for those to come."""
        self.stop()
        percent = self._percent()
        if self._limits.requests is not None:
            self._metering.used_besides(self._limits.requests, percent)

    def _percent(self) -> float:
        percent, self._spent_ns = self._spent_ns / _NS_PER_PERCENT, 0
        return percent

    def answered(self, call: Call, answer: Answer) -> None:
        """Say in the answer for how long has to be waited, and see to it."""
        limits, metering = self._limits, self._metering
        throttle_ms = 0
        if call.api.key == PRODUCE and limits.produced is not None:
            throttle_ms = metering.used(Kind.PRODUCED, limits.produced, self._size)
        elif call.api.key == FETCH and limits.consumed is not None:
            size = _records_size(answer.response)
            throttle_ms = metering.used(Kind.CONSUMED, limits.consumed, size)
        if limits.requests is not None:
            waited_ms = metering.used(Kind.REQUESTS, limits.requests, self._percent())
            throttle_ms = max(throttle_ms, waited_ms)
        if not throttle_ms:
            return
        if hasattr(answer.response, "throttle_time_ms"):
            # Others may have been given the same one.
            answer.response = replace(answer.response, throttle_time_ms=min(throttle_ms, INT32_MAX))
        assert self._connection is not None
        self._connection.mute(throttle_ms)


def _records_size(response: "FetchResponse") -> int:
    return sum(
        records_size(data.records)
        for topic in response.responses
        for data in topic.partitions
        if data.records is not None
    )


class _Timed(Coroutine[Any, Any, Answer]):
    """Counts the steps of an answer that is waited for."""

    def __init__(
        self, request: MeteredRequest, coroutine: Coroutine[Any, Any, Answer], call: Call
    ) -> None:
        self._request = request
        self._coroutine = coroutine
        self._call = call

    def __await__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._step(partial(self._coroutine.send, None))

    def send(self, value: Any) -> Any:
        return self._step(partial(self._coroutine.send, value))

    def throw(self, *error: Any) -> Any:
        return self._step(partial(self._coroutine.throw, *error))

    def close(self) -> None:
        self._coroutine.close()

    def _step(self, step: Callable[[], Any]) -> Any:
        request = self._request
        request.start()
        try:
            return step()
        except StopIteration as ended:
            request.stop()
            request.answered(self._call, ended.value)
            raise
        finally:
            request.stop()
