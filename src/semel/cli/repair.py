"""`semel cluster repair`: lanes that cannot be read, and what it takes to lead them again."""

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from semel.cli.arguments import DEFAULT_NODES, NodeArguments
from semel.cli.cluster import Ephemeral, JournalUrl, StoreOptions, StoreUrl
from semel.cli.output import say, say_json
from semel.cli.steering import AsJson
from semel.spelling import noun

if TYPE_CHECKING:
    from semel.cluster.repairing import Found

Discard = Annotated[
    bool,
    Parameter(negative="", help="Do it: give up what cannot be read, and all that is behind it."),
]


def repair(
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    discard: Discard = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> int:
    """Look for lanes whose objects in the store are damaged or gone, and say what would be lost.

    Nothing is changed without --discard. A copy of the store from before that has the objects is
    better than any repair. The exit code is 1 if there is damage that was not repaired.
    """
    # What speaks to stores is needed by this command alone.
    from semel.cluster import repairing
    from semel.cluster.channel import connecting
    from semel.cluster.opening import ClusterSettings, opened
    from semel.world import SystemClock, SystemRandomness

    connect = connecting(nodes.security)
    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)

    async def look() -> "list[Found]":
        async with opened(settings) as (found_store, cluster):
            first = await repairing.examine(found_store, cluster, 0)
            count = max(first.lane_count, cluster.lane_count)
            found = [first]
            found += [
                (await repairing.examine(found_store, cluster, lane))._replace(lane_count=count)
                for lane in range(1, count)
            ]
            if discard:
                with tempfile.TemporaryDirectory(prefix="semel-") as folder:
                    for each in found:
                        if each.reasons:
                            work = Path(folder) / str(each.lane)
                            clock, randomness = SystemClock(), SystemRandomness()
                            await repairing.mend(
                                found_store, cluster, each, work, clock, randomness, connect
                            )
            return found

    found = asyncio.run(look())
    if as_json:
        say_json({"repaired": discard, "lanes": [_in_json(each) for each in found]})
    else:
        for each in found:
            _say(each, is_done=discard)
    return 0 if discard or not any(each.reasons for each in found) else 1


def _say(found: "Found", *, is_done: bool) -> None:
    if not found.reasons:
        say(f"lane {found.lane}: all of it can be read")
        return
    for reason in found.reasons:
        say(f"lane {found.lane}: {reason}")
    if found.lost:
        slots = f"slot {found.kept}"
        if found.lost > 1:
            slots = f"slots {found.kept} to {found.last}"
        say(
            f"lane {found.lane}: what was acknowledged in {slots} "
            f"{'is' if is_done else 'would be'} lost: records, offsets of groups, topics and "
            "settings; ends of transactions, also such that other lanes know as committed"
        )
    else:
        say(f"lane {found.lane}: nothing {'is' if is_done else 'would be'} lost by that")
    open_count = found.open_transactions
    if open_count:
        say(
            f"lane {found.lane}: {open_count} open {noun(open_count, 'transaction')} "
            f"{'were' if is_done else 'would be'} aborted"
        )
    if is_done:
        say(f"lane {found.lane}: repaired, its node leads it soon")
    else:
        say(f"lane {found.lane}: --discard does so. A copy of the store from before is better")


def _in_json(found: "Found") -> dict[str, Any]:
    return {
        "lane": found.lane,
        "damage": list(found.reasons),
        "kept_before_slot": found.kept,
        "newest_slot": found.last,
        "lost_slots": found.lost if found.reasons else 0,
        "open_transactions": found.open_transactions,
    }
