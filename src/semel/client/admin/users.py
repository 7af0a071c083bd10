"""Users, who sign in with a password, of which brokers are told only what was made of it."""

import hashlib
from collections.abc import Iterable

from semel.access.scram import SALT_SIZE, Mechanism
from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.errors import ResourceNotFound
from semel.wire.messages import alter_user_scram_credentials as altering
from semel.wire.messages import describe_user_scram_credentials as describing
from semel.world import SystemRandomness


async def list_all(cluster: Cluster) -> dict[str, dict[str, int]]:
    """Iterations by mechanism."""

    async def attempt() -> dict[str, dict[str, int]]:
        request = describing.DescribeUserScramCredentialsRequest(None)
        reply = await cluster.call_any(describing, request)
        raise_for(reply.error_code, "users", reply.error_message)
        return {
            each.user: {
                Mechanism(info.mechanism).shown: info.iterations for info in each.credential_infos
            }
            for each in sorted(reply.results, key=lambda each: each.user)
        }

    return await cluster.retry(attempt)


async def set_password(
    cluster: Cluster,
    name: str,
    password: bytes,
    iterations: int,
    mechanisms: Iterable[Mechanism] = Mechanism,
) -> None:
    """Of a user who is there, or is made so."""
    randomness = SystemRandomness()
    made = []
    for mechanism in mechanisms:
        salt = randomness.token_bytes(SALT_SIZE)
        salted = hashlib.pbkdf2_hmac(mechanism.digest, password, salt, iterations)
        made.append(
            altering.ScramCredentialUpsertion(name, mechanism.value, iterations, salt, salted)
        )
    await _alter(cluster, name, altering.AlterUserScramCredentialsRequest([], made))


async def delete(cluster: Cluster, name: str) -> None:
    """Raises ResourceNotFound."""
    known = (await list_all(cluster)).get(name)
    if not known:
        raise ResourceNotFound(f"there is no user {name!r}")
    gone = [
        altering.ScramCredentialDeletion(name, each.value)
        for each in Mechanism
        if each.shown in known
    ]
    await _alter(cluster, name, altering.AlterUserScramCredentialsRequest(gone, []))


async def _alter(
    cluster: Cluster, name: str, request: altering.AlterUserScramCredentialsRequest
) -> None:
    async def attempt() -> None:
        reply = await cluster.call(await cluster.controller_id(), altering, request)
        for result in reply.results:
            raise_for(result.error_code, f"user {name}", result.error_message)

    await cluster.retry(attempt)
