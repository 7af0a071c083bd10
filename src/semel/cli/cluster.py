"""`semel cluster`: make a cluster of nodes that share a store."""

import asyncio
import base64
from random import Random
from typing import Annotated

from cyclopts import App, Parameter

from semel.cli.output import say, say_json

app = App(name="cluster", help="Make a cluster: nodes that share a store.")


@app.command
def create(
    *,
    store: Annotated[str, Parameter(help="s3://BUCKET/PATH, gs://, az://; file:///DIR for tests.")],
    ephemeral: Annotated[
        bool, Parameter(negative="", help="Take a store that a power loss would empty.")
    ] = False,
    offsets_partitions: Annotated[
        int, Parameter(help="Partitions of __consumer_offsets, for good.")
    ] = 50,
    transactions_partitions: Annotated[
        int, Parameter(help="Partitions of __transaction_state, for good.")
    ] = 50,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")
    ] = False,
) -> None:
    """Begin a cluster in a store, once it has shown that nodes can rely on it.

    `semel serve --store URL --node-id N` then runs a node, on as many machines as you like.
    """
    # What speaks to stores is needed by this command alone.
    from semel.cluster import format as cluster_format
    from semel.store.opening import open_store
    from semel.store.settings import StoreSettings
    from semel.world import SystemRandomness

    async def begin() -> bytes:
        opened = open_store(StoreSettings(store, is_ephemeral=ephemeral), Random())
        try:
            made = await cluster_format.create(
                opened, SystemRandomness(), offsets_partitions, transactions_partitions
            )
        finally:
            await opened.close()
        return made.cluster_id

    cluster_id = base64.urlsafe_b64encode(asyncio.run(begin())).decode().rstrip("=")
    if as_json:
        say_json({"cluster_id": cluster_id})
    else:
        say(f"cluster {cluster_id} is there; `semel serve --store {store} --node-id N` runs a node")
