"""A lane some of whose objects are damaged or gone, and what it takes to lead it again."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from semel.cluster import repairing
from semel.cluster.format import ClusterRefused
from semel.cluster.repairing import Found
from semel.journal.slots import keys
from semel.store.in_memory import MemoryStore
from semel.verify.world.loop import SimulatedClock
from support.lanes_on_store import create, ends, stored
from support.simulated_cluster import TIMING, SimulatedCluster, on_nodes

LANE = 1


async def stopped(cluster: SimulatedCluster) -> None:
    for node in cluster.nodes.values():
        node.stop()
        await node.until_over()


async def killed(cluster: SimulatedCluster) -> None:
    for node in cluster.nodes.values():
        node.kill()


def damage(cluster: SimulatedCluster, key: str, change: Callable[[bytes], bytes | None]) -> None:
    changed = change(cluster.bucket.objects.pop(key))
    if changed is not None:
        cluster.bucket.objects[key] = changed


def flipped(stored_: bytes) -> bytes:
    middle = len(stored_) // 2
    return stored_[:middle] + bytes([stored_[middle] ^ 1]) + stored_[middle + 1 :]


async def examined(cluster: SimulatedCluster, lane: int = LANE) -> Found:
    found = await repairing.examine(MemoryStore(cluster.bucket), cluster.format, lane)
    return found._replace(lane_count=2)


async def mended(cluster: SimulatedCluster, found: Found, folder: Path) -> None:
    await repairing.mend(
        MemoryStore(cluster.bucket),
        cluster.format,
        found,
        folder,
        SimulatedClock(asyncio.get_running_loop()),
        cluster.randomness,
    )


async def written(cluster: SimulatedCluster, count: int) -> None:
    await cluster.all_led(2)
    await create(cluster, "t", 2)
    for number in range(count):
        for index in range(2):
            await stored(cluster, "t", index, b"%d" % number)


def slots(cluster: SimulatedCluster, lane: int) -> list[str]:
    return sorted(key for key in cluster.bucket.objects if key.startswith(keys.slots(lane)))


@on_nodes(1, 2, lanes=2)
async def test_what_is_whole_is_left_alone(cluster: SimulatedCluster) -> None:
    await written(cluster, 3)
    await stopped(cluster)
    for lane in range(2):
        found = await examined(cluster, lane)
        assert (found.reasons, found.lost) == ((), 0)


@pytest.mark.parametrize("change", [flipped, lambda stored_: None], ids=["damaged", "gone"])
def test_a_slot_is_given_up_with_all_behind_it_and_the_other_lanes_go_on(
    change: Callable[[bytes], bytes | None], tmp_path: Path
) -> None:
    @on_nodes(1, 2, lanes=2)
    async def scenario(cluster: SimulatedCluster) -> None:
        await written(cluster, 6)
        await killed(cluster)
        names = slots(cluster, LANE)
        # Each record has a slot: three are kept, and what is behind is lost.
        victim = names[-3]
        damage(cluster, victim, change)
        # Lane 0 is led; its leader says why the other is not.
        for number in (1, 2):
            cluster.start(number)
        leader = await cluster.leader()
        await cluster.until(lambda: any(node.node.troubles() for node in cluster.nodes.values()))
        await stored(cluster, "t", 0, b"lane 0 goes on")
        assert LANE not in cluster.led()
        found = await examined(cluster)
        assert len(found.reasons) == 1
        assert victim in found.reasons[0]
        assert found.lost == 3
        await mended(cluster, found, tmp_path)
        await cluster.all_led(2)
        assert leader.leads
        assert ends(cluster, "t", 2, 2) == [7, 3]
        await stored(cluster, "t", 1, b"after")
        await stopped(cluster)
        assert (await examined(cluster)).reasons == ()

    scenario()


@on_nodes(1, 2, lanes=2)
async def test_a_lane_that_is_led_is_not_repaired(cluster: SimulatedCluster) -> None:
    await written(cluster, 3)
    damage(cluster, slots(cluster, LANE)[-1], flipped)
    found = await examined(cluster)
    assert found.lost == 1
    await asyncio.sleep(TIMING.detection_s)
    assert LANE in cluster.led(), "its leader has in memory what cannot be read"
    outside = cluster.nodes[1].connect
    with pytest.raises(ClusterRefused, match=f"leads lane {LANE}"):
        await repairing.mend(
            MemoryStore(cluster.bucket),
            cluster.format,
            found,
            Path("unused"),
            SimulatedClock(asyncio.get_running_loop()),
            cluster.randomness,
            connect=outside,
        )
