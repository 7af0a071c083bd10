"""`semel cluster`: make a cluster of nodes that share a store."""

import asyncio
import base64
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from semel.cli.numbers import whole_number
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


OffsetsPartitions = Annotated[
    int,
    Parameter(
        converter=whole_number,
        help="Partitions of __consumer_offsets, for good, unless it is there.",
    ),
]
TransactionsPartitions = Annotated[
    int,
    Parameter(
        converter=whole_number,
        help="Partitions of __transaction_state, for good, unless it is there.",
    ),
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]


def _shown_id(cluster_id: bytes) -> str:
    return base64.urlsafe_b64encode(cluster_id).decode().rstrip("=")


@app.command
def create(
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    offsets_partitions: OffsetsPartitions = 50,
    transactions_partitions: TransactionsPartitions = 50,
    lanes: Annotated[
        int,
        Parameter(
            converter=whole_number,
            help="So many parts of the log are led side by side; more can be added.",
        ),
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Begin a cluster in a store, once it has shown that nodes can rely on it.

    `semel serve --store URL --node-id N` then runs a node, on as many machines as you like.
    """
    # What speaks to stores is needed by this command alone.
    from semel.cluster import format as cluster_format
    from semel.cluster.opening import ClusterSettings, stores
    from semel.cluster.placement import LANES_MAX
    from semel.errors import ConfigError
    from semel.store.settings import shown
    from semel.world import SystemRandomness

    if not 1 <= lanes <= LANES_MAX:
        raise ConfigError(f"--lanes {lanes}: from 1 to {LANES_MAX}")
    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)

    async def begin() -> bytes:
        async with stores(settings) as found:
            made = await cluster_format.create(
                found.store,
                SystemRandomness(),
                offsets_partitions,
                transactions_partitions,
                found.journal,
                lanes,
            )
        return made.cluster_id

    cluster_id = _shown_id(asyncio.run(begin()))
    if as_json:
        say_json({"cluster_id": cluster_id})
    else:
        named = shown(store) if journal is None else f"{shown(store)} --journal {shown(journal)}"
        if ephemeral:
            named += " --ephemeral"
        say(f"cluster {cluster_id} is there; `semel serve --store {named} --node-id N` runs a node")


@app.command(name="import")
def import_(
    *,
    data: Annotated[Path, Parameter(help="The data folder of a broker that has stopped.")],
    store: StoreUrl,
    store_option: StoreOptions = (),
    volumes: Annotated[
        str | None, Parameter(help="Where old data of the folder lies, as to `semel serve`.")
    ] = None,
    volumes_option: Annotated[
        tuple[str, ...],
        Parameter(
            name="--volumes-option",
            negative="",
            help="How to reach that, as --store-option; repeatable.",
        ),
    ] = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    offsets_partitions: OffsetsPartitions = 50,
    transactions_partitions: TransactionsPartitions = 50,
    as_json: AsJson = False,
) -> None:
    """Make a cluster of a broker's data folder, which stays as it is.

    All topics, records with their offsets, groups, producers and open transactions are taken over.
    The folder is checked first, as by `semel log check`.
    """
    from semel.cli.output import progress
    from semel.cluster.migration import import_folder
    from semel.cluster.opening import ClusterSettings
    from semel.store.settings import StoreSettings, shown
    from semel.world import SystemClock, SystemRandomness

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    far = None if volumes is None else StoreSettings.of(volumes, volumes_option)
    made = asyncio.run(
        import_folder(
            data,
            settings,
            SystemClock(),
            SystemRandomness(),
            (offsets_partitions, transactions_partitions),
            progress,
            far,
        )
    )
    cluster_id, (batch_count, byte_count) = _shown_id(made.cluster_id), made.copied
    if as_json:
        say_json({"cluster_id": cluster_id, "batches": batch_count, "bytes": byte_count})
    else:
        say(
            f"cluster {cluster_id} is in {shown(store)}: {batch_count:,} batches, "
            f"{byte_count:,} bytes. {data} is as it was: do not serve both"
        )


@app.command
def export(
    *,
    store: StoreUrl,
    data: Annotated[Path, Parameter(help="The folder to make.")],
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    as_json: AsJson = False,
) -> None:
    """Make a data folder for one broker of a cluster whose nodes have stopped.

    The cluster stays as it is; `semel serve --data DIR` goes on from there.
    """
    from semel.cli.output import progress
    from semel.cluster.migration import export_cluster
    from semel.cluster.opening import ClusterSettings
    from semel.world import SystemClock, SystemRandomness

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    copied = asyncio.run(
        export_cluster(settings, data, SystemClock(), SystemRandomness(), progress)
    )
    if as_json:
        say_json({"batches": copied.batch_count, "bytes": copied.byte_count})
    else:
        say(f"{data} is there: {copied.batch_count:,} batches, {copied.byte_count:,} bytes")
