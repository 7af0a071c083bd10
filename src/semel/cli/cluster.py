"""`semel cluster`: make a cluster of nodes that share a store."""

import asyncio
import base64
from typing import Annotated

from cyclopts import App, Parameter

from semel.cli.output import say, say_json

app = App(name="cluster", help="Make and steer a cluster: nodes that share a store.")


StoreUrl = Annotated[str, Parameter(help="s3://BUCKET/PATH, gs://, az://; file:///DIR for tests.")]
StoreOptions = Annotated[
    tuple[str, ...],
    Parameter(
        name="--store-option",
        negative="",
        help="How to reach it: endpoint=URL, region=NAME, ...; repeatable.",
    ),
]
JournalUrl = Annotated[
    str | None,
    Parameter(help="Where the slots lie, if not in the store: postgresql://HOST/DATABASE."),
]
Ephemeral = Annotated[
    bool, Parameter(negative="", help="Take a store that a power loss would empty.")
]


@app.command
def create(
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
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
    from semel.cluster.opening import ClusterSettings, stores
    from semel.store.settings import shown
    from semel.world import SystemRandomness

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)

    async def begin() -> bytes:
        async with stores(settings) as found:
            made = await cluster_format.create(
                found.store,
                SystemRandomness(),
                offsets_partitions,
                transactions_partitions,
                found.journal,
            )
        return made.cluster_id

    cluster_id = base64.urlsafe_b64encode(asyncio.run(begin())).decode().rstrip("=")
    if as_json:
        say_json({"cluster_id": cluster_id})
    else:
        named = shown(store) if journal is None else f"{shown(store)} --journal {shown(journal)}"
        say(f"cluster {cluster_id} is there; `semel serve --store {named} --node-id N` runs a node")
