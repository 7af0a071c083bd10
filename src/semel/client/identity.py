"""Asking for a producer id: a fresh one, that of a transactional id, or the next epoch of ours."""

from semel.client.cluster import Cluster, CoordinatorOf
from semel.client.refusal import raise_for
from semel.client.writer import Identity
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from semel.wire.messages import init_producer_id

_NO_TIMEOUT_MS = 2**31 - 1
_RENEWAL_VERSION_MIN = 3


async def fresh_identity(cluster: Cluster) -> Identity:
    """For writing outside of transactions."""

    async def attempt() -> Identity:
        request = init_producer_id.InitProducerIdRequest(None, _NO_TIMEOUT_MS)
        return _identity(await cluster.call_any(init_producer_id, request), "producer id")

    return await cluster.retry(attempt)


async def newest_identity(
    cluster: Cluster, transactional_id: str, transaction_timeout_ms: int
) -> Identity:
    """Fences every other producer of this id, and rolls back what it left open."""
    return await _initialise(
        cluster,
        transactional_id,
        init_producer_id.InitProducerIdRequest(transactional_id, transaction_timeout_ms),
    )


async def renewed_identity(
    cluster: Cluster, transactional_id: str, transaction_timeout_ms: int, identity: Identity
) -> Identity:
    """The next epoch, unless somebody has taken the id over: then the request is refused.

    Brokers before version 2.5 cannot tell: there it is as with `newest_identity`.
    """

    async def version() -> int:
        coordinator_id = await cluster.coordinator_of(transactional_id, CoordinatorOf.TRANSACTION)
        return await cluster.version_of(coordinator_id, init_producer_id)

    can_tell = await cluster.retry(version) >= _RENEWAL_VERSION_MIN
    known = identity if can_tell else Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return await _initialise(
        cluster,
        transactional_id,
        init_producer_id.InitProducerIdRequest(transactional_id, transaction_timeout_ms, *known),
    )


async def _initialise(
    cluster: Cluster, transactional_id: str, request: init_producer_id.InitProducerIdRequest
) -> Identity:
    async def attempt() -> Identity:
        reply = await cluster.call_coordinator(
            transactional_id, init_producer_id, request, CoordinatorOf.TRANSACTION
        )
        return _identity(reply, f"transactional id {transactional_id}")

    return await cluster.retry(attempt)


def _identity(reply: init_producer_id.InitProducerIdResponse, subject: str) -> Identity:
    raise_for(reply.error_code, subject)
    return Identity(reply.producer_id, reply.producer_epoch)
