"""`App`: functions that listen to topics, declared by decorators and run together."""

import asyncio
import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, Unpack

from semel.app.cycle import Rules
from semel.app.listener import (
    Listener,
    check_promise,
    check_runs,
    layers_of,
    takes_outbox,
    topics_of,
)
from semel.app.pauses import Pauses
from semel.app.payload import payload_of
from semel.app.progress import Counts
from semel.app.retry_policy import RetryPolicy, check_retry_policy
from semel.app.running import AppSettings, RunningApp, run_members, run_until_told
from semel.client.consuming.deserializers import deserializers_of
from semel.client.consuming.settings import ConsumerOptions
from semel.client.consuming.settings import settings_of as check_consumer
from semel.client.options import check_names, check_numbers
from semel.client.producing.settings import ProducerOptions
from semel.client.producing.settings import settings_of as check_producer
from semel.errors import ConfigError
from semel.security import SecurityLike
from semel.spelling import unknown_name
from semel.topic_names import check_name

_Function = TypeVar("_Function", bound=Callable[..., Any])

TRANSACTION_TIMEOUT_MS = 10_000
"""How long a process that died in a transaction may keep its readers waiting.

What a function sends is held until it has returned, so that a transaction is open for no longer
than it takes to write it.
"""


class App:
    """Listeners that run together.

    >>> app = App("localhost:9092")
    >>> @app.listener("orders", group="billing")
    ... @app.transactional
    ... def bill(order: Record, out: Transaction) -> None:
    ...     out.send("invoices", key=order.key, value=invoice(order))

    Without servers `SEMEL_BOOTSTRAP_SERVERS` names them. Further options are those of a producer.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        transactional_id_prefix: str = "semel-app",
        stop_timeout_ms: int = 30_000,
        **producer_options: Unpack[ProducerOptions],
    ) -> None:
        if "transactional_id" in producer_options:
            raise ConfigError(
                "an application makes its own transactional ids: give transactional_id_prefix"
            )
        if not transactional_id_prefix:
            raise ConfigError(
                "transactional_id_prefix is empty: other applications' may be as well"
            )
        producer_options.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
        check_producer(producer_options)
        self._settings = AppSettings(
            bootstrap_servers,
            transactional_id_prefix,
            stop_timeout_ms,
            producer_options,
            Pauses(),
        )
        self._declared: dict[str, Callable[[], Listener]] = {}
        self._transactional: set[Callable[..., Any]] = set()

    def transactional(self, function: _Function) -> _Function:
        """Commit what the function sends, and the offsets of what it read, in one transaction."""
        self._transactional.update(layers_of(function))
        return function

    def listener(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        group: str,
        name: str | None = None,
        batch: bool | str = False,
        records_max: int = 1_000,
        cycle_ms_max: int = 100,
        concurrency: int = 1,
        retries: int = 3,
        backoff_ms: int = 100,
        backoff_ms_max: int = 10_000,
        retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
        dead_letters: str | None = None,
        **consumer_options: Unpack[ConsumerOptions],
    ) -> Callable[[_Function], _Function]:
        """Call the function for the records of these topics, as a member of this group.

        The function gets a record, or with `batch` a list of them or an Arrow batch ("arrow", or
        the annotation `pyarrow.RecordBatch`); a second parameter takes what it sends. Annotated
        with `Record[str, Order]` or `Order`, it gets keys and values as such. `def` runs in a
        thread, `async def` on the loop. A record that fails is tried again after a growing
        pause, and goes to the topic `dead_letters` in the end; without one the application stops.
        Further options are those of a consumer.
        """
        counts = {
            "records_max": records_max,
            "cycle_ms_max": cycle_ms_max,
            "concurrency": concurrency,
        }
        check_numbers(counts, dict.fromkeys(counts, int))
        for option, count in counts.items():
            if count < 1:
                raise ConfigError(f"{option} is {count}, and must be positive")
        kinds = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        retry_policy = check_retry_policy(RetryPolicy(retries, backoff_ms, backoff_ms_max, kinds))
        if dead_letters is not None:
            check_name(dead_letters)
        if consumer_options.get("enable_auto_commit"):
            raise ConfigError("a listener commits what is done: enable_auto_commit would not")
        own = inspect.signature(self.listener).parameters
        check_names("listener", consumer_options, ConsumerOptions.__annotations__, also=own)
        check_consumer(group, consumer_options)
        # A record is opened in the thread of the function, and a failure at that is the record's.
        opening = consumer_options.copy()
        consumer_options.pop("key_deserializer", None)
        consumer_options.pop("value_deserializer", None)

        def declare(function: _Function) -> _Function:
            called = name or function.__name__
            if called in self._declared:
                raise ConfigError(f"two listeners are called {called}: give one a name=")
            check_runs(function)
            payload = payload_of(function, batch)
            # What a function makes of it is what the annotation tells of then.
            kinds = {
                part: None if f"{part}_deserializer" in opening else getattr(payload, part)
                for part in ("key", "value")
            }
            deserializers = deserializers_of(opening, **kinds)

            def listener() -> Listener:
                return Listener(
                    name=called,
                    function=function,
                    topics=topics_of(topics),
                    group=group,
                    # Asked late, since the decorators may stand in any order.
                    is_transactional=any(
                        each in self._transactional for each in layers_of(function)
                    ),
                    payload=payload,
                    takes_outbox=takes_outbox(function),
                    is_coroutine=inspect.iscoroutinefunction(function),
                    rules=Rules(retry_policy, dead_letters),
                    records_max=records_max,
                    cycle_ms_max=cycle_ms_max,
                    concurrency=concurrency,
                    deserializers=deserializers,
                    consumer_options=consumer_options,
                )

            listener()  # What is wrong with it is said where it is declared.
            self._declared[called] = listener
            return function

        return declare

    @property
    def listeners(self) -> list[Listener]:
        return [listener() for listener in self._declared.values()]

    def pause(self, *listeners: str) -> None:
        """Let these listeners, or all, take no further records until they are resumed.

        What is in work is finished. They stay in their groups with their partitions, those that
        they are given meanwhile too. May be called in any thread, and before they run.
        """
        self._settings.pauses.add(self._named(listeners))

    def resume(self, *listeners: str) -> None:
        """Let these listeners, or all, take records again."""
        self._settings.pauses.remove(self._named(listeners))

    @property
    def paused(self) -> frozenset[str]:
        """The names of the listeners that are paused."""
        return self._settings.pauses.paused

    def _named(self, listeners: Sequence[str]) -> frozenset[str]:
        for name in listeners:
            if name not in self._declared:
                raise ConfigError(unknown_name("listener", name, self._declared))
        return frozenset(listeners or self._declared)

    @property
    def has_brokers(self) -> bool:
        """Whether it was told which: else the environment names them."""
        return self._settings.bootstrap_servers is not None

    def running(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        security: SecurityLike | None = None,
    ) -> AbstractAsyncContextManager[RunningApp]:
        """Run all listeners for the length of an `async with` block.

        What is given here takes the place of what the application was made with. At the end of the
        block they finish what they are at. If one fails, all stop and the block is left with
        `ListenerFailed`.
        """
        listeners = self.listeners
        if not listeners:
            raise ConfigError("the application has no listeners")
        for each in listeners:
            check_promise(each)
            if each.needs_transactions:
                self._check_transactions(each.name)
        return run_members(self._settings.at(bootstrap_servers, security), listeners)

    def _check_transactions(self, listener: str) -> None:
        """Here, and not at the first record: that may come long after the start."""
        options = self._settings.producer_options.copy()
        options["transactional_id"] = f"{self._settings.transactional_id_prefix}-"
        try:
            check_producer(options)
        except ConfigError as error:
            raise ConfigError(f"listener {listener} needs transactions: {error}") from error

    def run(self, bootstrap_servers: str | Sequence[str] | None = None) -> None:
        """Run until SIGTERM or Ctrl-C, as `semel run` does; raises ListenerFailed."""
        asyncio.run(run_until_told(self.running(bootstrap_servers), RunningApp.until_ended))

    def run_until_idle(
        self, bootstrap_servers: str | Sequence[str] | None = None, *, timeout_s: float = 60
    ) -> dict[str, Counts]:
        """Run until all there is to read has been worked on: what each listener did.

        For tests: several listeners may feed each other, but nobody else may be in their groups.
        """

        async def until_idle() -> dict[str, Counts]:
            async with self.running(bootstrap_servers) as run:
                await run.idle(timeout_s)
            return run.counts()

        return asyncio.run(until_idle())
