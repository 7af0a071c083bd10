"""`semel cluster move`, `drain`, `upgrade` and `rotate-key`: a cluster as its owner wants it.

The store says where the nodes are, and holds the key that they listen to; how their listener is
secured the arguments say, as those of other commands do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter

from semel.cli.arguments import DEFAULT_NODES, NodeArguments
from semel.cli.cluster import Ephemeral, JournalUrl, StoreOptions, StoreUrl
from semel.cli.numbers import whole_number
from semel.cli.output import note, say, say_json
from semel.spelling import noun

if TYPE_CHECKING:
    from semel.cluster.messages import AnyAnswer
    from semel.cluster.opening import ClusterSettings
    from semel.cluster.outside import Outside

PATIENCE_S = 60.0
ROTATING_S_MAX = 15.0

Asked = TypeVar("Asked")
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]


def move(
    *,
    to: Annotated[int, Parameter(converter=whole_number, help="The node that is to lead.")],
    lane: Annotated[int, Parameter(converter=whole_number, help="Which lane it is to lead.")] = 0,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> None:
    """Let another node lead a lane. No transaction is aborted, and clients wait a moment.

    A lane that was moved stays there as long as that node lives, until `semel cluster rebalance`.
    """
    from semel.cluster.messages import Move
    from semel.cluster.opening import ClusterSettings

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    answer = with_cluster(
        settings, nodes, lambda cluster: cluster.ask_leader(Move(to, lane), PATIENCE_S)
    )
    _say_who_leads(answer, as_json, lane)


def drain(
    node: Annotated[
        int, Parameter(converter=whole_number, help="The node that is to lead no more.")
    ],
    /,
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    undo: Annotated[bool, Parameter(negative="", help="Let it lead again if it comes to that.")] = (
        False
    ),
    ephemeral: Ephemeral = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> None:
    """Let a node lead only if nobody else does, until it is started anew: before it is taken away.

    If it leads, it hands over to another.
    """
    from semel.cluster.messages import Drain, Leads
    from semel.cluster.opening import ClusterSettings

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    answer = with_cluster(
        settings, nodes, lambda cluster: cluster.ask(node, Drain(not undo), PATIENCE_S)
    )
    if isinstance(answer, Leads):
        _say_who_leads(answer, as_json)
    elif as_json:
        say_json({"node": node, "drained": not undo})
    else:
        say(f"node {node} {'may lead again' if undo else 'stands by, and is drained'}")


def upgrade(
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> None:
    """Say that all nodes stay with the version that they have by now.

    Until then they store only what the version before can read, so that one can go back to it.
    """
    from semel.cluster.messages import Upgrade, Upgraded
    from semel.cluster.opening import ClusterSettings

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    answer = with_cluster(
        settings, nodes, lambda cluster: cluster.ask_leader(Upgrade(), PATIENCE_S)
    )
    assert isinstance(answer, Upgraded)
    if as_json:
        say_json({"level": answer.level})
    else:
        say(f"the cluster writes at level {answer.level}, which all of its nodes can read")


def rotate_key(
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> int:
    """Give the nodes another key by which they know each other and who steers them.

    It lies in the store, as the one before did: do this when somebody has read that who should not
    have. The exit code is 1 if a node does not answer to it yet.
    """
    from semel.cluster import keys
    from semel.cluster.channel import connecting
    from semel.cluster.opening import ClusterSettings, opened
    from semel.cluster.outside import Outside
    from semel.world import SystemRandomness

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    connect = connecting(nodes.security)

    async def rotated() -> tuple[list[int], list[int]]:
        async with opened(settings) as (found, cluster):
            changed = await keys.rotate(found, cluster, SystemRandomness())
            outside = await Outside.of(found, changed, connect=connect)
            known = [node.node_id for node in outside.nodes]
            return known, await outside.deaf(ROTATING_S_MAX)

    known, deaf = asyncio.run(rotated())
    if as_json:
        say_json({"nodes": known, "unanswered": deaf})
        return 1 if deaf else 0
    say(f"there is a new key; nodes that answer to it: {_listed(set(known) - set(deaf))}")
    for node in deaf:
        note(f"node {node} does not answer: it takes the key when it is called or starts")
    return 1 if deaf else 0


def _listed(nodes: set[int]) -> str:
    return ", ".join(map(str, sorted(nodes))) or "none"


def lanes(
    count: Annotated[int, Parameter(converter=whole_number, help="How many there are to be.")],
    /,
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> None:
    """Add lanes, over which new topics are spread. There are never fewer.

    Topics that are there stay in the lanes in which they are.
    """
    from semel.cluster.messages import AddLanes, LaneCount
    from semel.cluster.opening import ClusterSettings

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    answer = with_cluster(
        settings, nodes, lambda cluster: cluster.ask_leader(AddLanes(count), PATIENCE_S)
    )
    assert isinstance(answer, LaneCount)
    if as_json:
        say_json({"lanes": answer.lane_count})
    else:
        say(f"there are {answer.lane_count} lanes, over which new topics are spread")


def rebalance(
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> None:
    """Spread the lanes evenly over the nodes, those that were moved by hand as well."""
    from semel.cluster.messages import Balanced, Rebalance
    from semel.cluster.opening import ClusterSettings

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)
    answer = with_cluster(
        settings, nodes, lambda cluster: cluster.ask_leader(Rebalance(), PATIENCE_S)
    )
    assert isinstance(answer, Balanced)
    if as_json:
        say_json({"moved": answer.moved})
    else:
        say(f"{answer.moved} {noun(answer.moved, 'lane has', 'lanes have')} moved")


def _say_who_leads(answer: "AnyAnswer", as_json: bool, lane: int = 0) -> None:
    from semel.cluster.messages import Leads

    assert isinstance(answer, Leads)
    if as_json:
        named = {"lane": lane} if lane else {}
        say_json({"leader": answer.node_id, "epoch": answer.epoch, **named})
    else:
        which = f" lane {lane}" if lane else ""
        say(f"node {answer.node_id} leads{which}, with epoch {answer.epoch}")


def with_cluster(
    settings: "ClusterSettings",
    nodes: NodeArguments,
    ask: "Callable[[Outside], Awaitable[Asked]]",
) -> Asked:
    # What speaks to stores is needed by these commands alone.
    from semel.cluster.channel import connecting
    from semel.cluster.opening import opened
    from semel.cluster.outside import Outside

    connect = connecting(nodes.security)

    async def asked() -> Asked:
        async with opened(settings) as (store, cluster):
            return await ask(await Outside.of(store, cluster, connect=connect))

    return asyncio.run(asked())
