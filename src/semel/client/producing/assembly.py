"""The parts of a producer put together, the same for both of its faces."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.connecting.security_settings import as_security
from semel.client.outcome import TransactionFailed
from semel.client.producing.coordination import TransactionCoordination
from semel.client.producing.core import ProducerCore
from semel.client.producing.engine import ProducerEngine
from semel.client.producing.intake import Intake, serializers_of
from semel.client.producing.partitioners import make_partitioner
from semel.client.producing.settings import ProducerOptions, settings_of
from semel.client.producing.transactions import ProducerTransactions
from semel.errors import NotInOrder
from semel.security import PLAINTEXT
from semel.world import SystemRandomness


class Machinery(NamedTuple):
    """What runs on a loop."""

    cluster: Cluster
    engine: ProducerEngine
    maybe_transactions: ProducerTransactions | None

    @property
    def transactions(self) -> ProducerTransactions:
        if self.maybe_transactions is None:
            raise NotInOrder("a producer without a transactional_id has no transactions")
        return self.maybe_transactions

    async def wind_up(self) -> None:
        """Store what was sent, and abort what was not committed."""
        if self.maybe_transactions is None:
            await self.engine.flush()
        elif self.maybe_transactions.is_to_be_aborted:
            # If that fails, the next producer of this id will end what this one left.
            with suppress(TransactionFailed):
                await self.maybe_transactions.abort()


def make_intake(options: ProducerOptions) -> tuple[ProducerCore, Intake]:
    core = ProducerCore(settings_of(options))
    first = int.from_bytes(SystemRandomness().token_bytes(2), "big")
    partitioner = make_partitioner(
        options.get("partitioner", "murmur2"), core.settings.batch_size_max, first
    )
    return core, Intake(core, partitioner, *serializers_of(options))


def make_machinery(
    bootstrap_servers: str | Sequence[str] | None,
    options: ProducerOptions,
    core: ProducerCore,
    intake: Intake,
    lock: AbstractContextManager[Any],
    room_made: Callable[[], object],
) -> Machinery:
    """To be called on the loop that it will run on."""
    settings = core.settings
    cluster = Cluster(
        parse_bootstrap_servers(bootstrap_servers),
        client_id=options.get("client_id", "semel"),
        timeout_ms=settings.request_timeout_ms,
        security=as_security(options.get("security", PLAINTEXT)),
    )
    engine = ProducerEngine(cluster, core, intake, lock, room_made)
    if core.transaction is None:
        return Machinery(cluster, engine, None)
    coordination = TransactionCoordination(
        cluster,
        core.transaction.transactional_id,
        settings.transaction_timeout_ms,
        settings.block_timeout_ms,
    )
    return Machinery(cluster, engine, ProducerTransactions(engine, core.transaction, coordination))
