"""`semel group`: list and describe consumer groups, move their offsets, delete them."""

from collections.abc import Collection, Iterable
from typing import Annotated, NamedTuple

from cyclopts import App, Parameter

from semel.cli.arguments import (
    DEFAULT_TARGET,
    PartitionNumbers,
    Target,
    choose_partitions,
    parse_partition_numbers,
    tell_matches,
)
from semel.cli.output import (
    note,
    say,
    say_each,
    say_fields,
    say_heading,
    say_json,
    say_outcomes,
    say_table,
)
from semel.cli.place import (
    check_is_not_before_start,
    check_is_not_behind_end,
    offsets_of,
    parse_place,
)
from semel.client.admin import groups
from semel.client.admin.groups import GroupDescription, GroupListing
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import ends_of
from semel.errors import ConfigError, GroupIdNotFound, RequestError, UnknownTopicOrPartition
from semel.spelling import hint_at
from semel.types import TopicPartition
from semel.world import SystemClock

app = App(name="group", help="List and describe consumer groups, move their offsets, delete them.")


@app.command(name="list")
def list_groups(*, target: Target = DEFAULT_TARGET) -> int:
    """List all groups."""

    async def work(cluster: Cluster) -> list[GroupListing]:
        return await groups.list_all(cluster)

    found = target.run(work)
    if target.as_json:
        say_json(
            [
                {"group": one.group_id, "state": one.state, "protocol_type": one.protocol_type}
                for one in found
            ]
        )
    else:
        rows = [(one.group_id, one.state, one.protocol_type) for one in found]
        say_table(("GROUP", "STATE", "PROTOCOL"), rows)
    return 0


@app.command
def describe(group: str, /, *more: str, target: Target = DEFAULT_TARGET) -> int:
    """Show groups: members, committed offsets and how far they lag behind.

    The lag counts offsets: there are fewer records to read where some are aborted or compacted.
    """

    async def work(cluster: Cluster) -> list[_Described]:
        return [await _describe(cluster, group_id) for group_id in (group, *more)]

    return say_each(target.run(work), _say_described, _as_json, as_json=target.as_json)


@app.command
def seek(
    group: str,
    /,
    *,
    to: Annotated[
        str, Parameter(help="start, end, an offset, +N, -N or @TIME.", allow_leading_hyphen=True)
    ],
    topic: Annotated[
        tuple[str, ...],
        Parameter(
            name=["-t", "--topic"],
            negative="",
            help="Move only in this topic, even if the group has not read it yet; repeatable."
            " A name that begins with ^ is a regular expression for names.",
        ),
    ] = (),
    partitions: PartitionNumbers = (),
    target: Target = DEFAULT_TARGET,
) -> int:
    """Move the committed offsets of a group that has no members at the moment.

    An offset that one of the partitions does not have is refused, and nothing is moved.

    `semel group seek billing --topic orders --partitions 3 --to 42` moves it in one partition.
    """
    place = parse_place(to, SystemClock().wall_ms())
    numbers = parse_partition_numbers(partitions)

    async def work(cluster: Cluster) -> list[tuple[str, int, int | None, int]]:
        before = await groups.committed_offsets(cluster, group)
        if group.startswith("^") and not before:
            await _check_exists(cluster, group)
        if topic:
            partitions = await choose_partitions(cluster, topic, numbers)
        else:
            partitions = _with_numbers(group, before, numbers)
        partitions = await cluster.existing(partitions)
        await check_is_not_behind_end(cluster, place, partitions, "moved")
        await check_is_not_before_start(cluster, place, partitions, "moved")
        tell_matches(topic, partitions)
        after = await offsets_of(cluster, place, partitions)
        await groups.commit_offsets(cluster, group, after)
        if not before:
            known = [
                each.group_id for each in await groups.list_all(cluster) if each.group_id != group
            ]
            note(f"group {group} had no offsets, and has these now{hint_at(group, known)}")
        return [(*partition, before.get(partition), after[partition]) for partition in partitions]

    rows = target.run(work)
    if target.as_json:
        names = ("topic", "partition", "prior_offset", "offset")
        say_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        say_table(("TOPIC", "PARTITION", "PRIOR-OFFSET", "OFFSET"), rows)
    return 0


@app.command(name="offset-delete")
def offset_delete(
    group: str,
    /,
    *,
    topic: Annotated[
        tuple[str, ...],
        Parameter(name=["-t", "--topic"], negative="", help="What to forget; repeatable."),
    ],
    partitions: PartitionNumbers = (),
    target: Target = DEFAULT_TARGET,
) -> int:
    """Delete the offsets that a group has committed in topics that it does not read any more."""
    numbers = parse_partition_numbers(partitions)

    async def work(cluster: Cluster) -> list[tuple[TopicPartition, int]]:
        before = await groups.committed_offsets(cluster, group)
        chosen = await choose_partitions(cluster, topic, numbers)
        found = [(each, before[each]) for each in chosen if each in before]
        if not found:
            raise UnknownTopicOrPartition(f"group {group} has no offsets in {', '.join(topic)}")
        await groups.delete_offsets(cluster, group, [each for each, _ in found])
        return found

    rows = [(*partition, offset) for partition, offset in target.run(work)]
    names = ("topic", "partition", "prior_offset")
    if target.as_json:
        say_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        say_table(("TOPIC", "PARTITION", "PRIOR-OFFSET"), rows)
    return 0


@app.command
def delete(group: str, /, *more: str, target: Target = DEFAULT_TARGET) -> int:
    """Delete groups without members, and their offsets."""

    async def work(cluster: Cluster) -> dict[str, RequestError | None]:
        return await groups.delete(cluster, [group, *more])

    return say_outcomes("group", target.run(work), "deleted", as_json=target.as_json)


async def _check_exists(cluster: Cluster, group: str) -> None:
    """Of what looks like a pattern, and would be the name of a new group."""
    if (await groups.describe(cluster, group)).state == groups.DEAD:
        raise ConfigError(
            f"there is no group {group!r}, and a group is not named by a pattern here"
        )


def _with_numbers(
    group: str, committed: Iterable[TopicPartition], numbers: Collection[int]
) -> list[TopicPartition]:
    found = sorted(each for each in committed if not numbers or each.partition in numbers)
    if not found:
        which = f" in partitions {', '.join(map(str, sorted(numbers)))}" if numbers else ""
        raise ConfigError(f"group {group} has no offsets{which}: name the topics with --topic")
    return found


class _Progress(NamedTuple):
    """How far a group is in one partition, and who of it reads there."""

    topic: str
    partition: int
    offset: int | None
    end: int
    lag: int | None
    member_id: str | None
    client_id: str | None
    client_host: str | None


class _Described(NamedTuple):
    group: GroupDescription
    progress: list[_Progress]

    @property
    def lag(self) -> int:
        return sum(one.lag or 0 for one in self.progress)


async def _describe(cluster: Cluster, group_id: str) -> _Described:
    group = await groups.describe(cluster, group_id)
    offsets = await groups.committed_offsets(cluster, group_id)
    if group.state == groups.DEAD and not offsets:
        raise GroupIdNotFound(f"group {group_id} does not exist")
    owners = groups.owners(group.members)
    partitions = sorted(offsets.keys() | owners.keys())
    ends = await ends_of(cluster, await cluster.existing(partitions))
    progress = []
    for partition in partitions:
        owner = owners.get(partition)
        offset = offsets.get(partition)
        end = ends.get(partition)
        if end is None:
            continue
        progress.append(
            _Progress(
                *partition,
                offset=offset,
                end=end,
                lag=None if offset is None else max(end - offset, 0),
                member_id=owner.member_id if owner else None,
                client_id=owner.client_id if owner else None,
                client_host=owner.client_host if owner else None,
            )
        )
    return _Described(group, progress)


def _say_described(one: _Described) -> None:
    group = one.group
    say_heading(group.group_id)
    say_fields(
        {
            "state": group.state,
            "coordinator": group.coordinator_id,
            "assignor": group.assignor,
            "members": len(group.members),
            "lag": one.lag,
        }
    )
    if one.progress:
        say("")
        columns = "TOPIC PARTITION OFFSET END LAG MEMBER CLIENT HOST"
        say_table(columns.split(), one.progress)


def _as_json(one: _Described) -> dict[str, object]:
    group = one.group
    return {
        "group": group.group_id,
        "state": group.state,
        "coordinator": group.coordinator_id,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "lag": one.lag,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "partitions": [list(partition) for partition in sorted(member.partitions)],
            }
            for member in group.members
        ],
        "partitions": [progress._asdict() for progress in one.progress],
    }
