"""`semel config`: show and change the settings of brokers, topics and groups."""

from collections.abc import Mapping
from typing import Annotated, Literal

from cyclopts import App, Parameter

from semel.cli.arguments import DEFAULT_TARGET, Target, parse_settings
from semel.cli.output import say, say_configs, say_json, say_table
from semel.client.admin import configs
from semel.client.admin.configs import ConfigEntry, ConfigSource
from semel.client.admin.finding import ConfigKind, find_resource
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, InvalidConfig
from semel.spelling import unknown_name

app = App(name="config", help="Show and change the settings of brokers, topics and groups.")

Kind = Annotated[ConfigKind, Parameter(help="Of what the settings are.")]
Name = Annotated[
    str, Parameter(help="A topic, a group, the id of a broker, or `all` for all brokers.")
]


@app.command(name="list")
def list_(
    kind: Annotated[
        Literal["broker", "topic"], Parameter(help="Of what the settings are.")
    ] = "broker",
    /,
    *,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")
    ] = False,
) -> int:
    """Show every setting of brokers or topics that there is, with its default and what it is for.

    It asks no broker: these are the settings of this version. `semel config describe` shows what
    they are set to.
    """
    from semel.broker.all_settings import settings

    listed = list(settings(kind))
    if as_json:
        say_json([each._asdict() for each in listed])
        return 0
    columns = ("SETTING", "DEFAULT", "UNIT", "VALUES", "CHANGES", "MEANING")
    say_table(
        columns,
        [
            (
                each.name,
                each.default,
                each.unit,
                each.values,
                "at a start" if each.is_fixed else "at once",
                each.about,
            )
            for each in listed
        ],
    )
    return 0


@app.command
def describe(
    kind: Kind,
    name: Name,
    /,
    *settings: Annotated[str, Parameter(help="Only these; without any, all that there are.")],
    changed: Annotated[
        bool, Parameter(negative="", help="Only those that somebody has set somewhere.")
    ] = False,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Show settings with where their values come from, in Kafka's words.

    Of a broker all are shown, those that were given at its start too. `describe broker all` shows
    what was set for all brokers while they run.
    """

    async def work(cluster: Cluster) -> tuple[ConfigEntry, ...]:
        resource, resource_name = await find_resource(cluster, kind, name)
        return (await configs.describe(cluster, resource, [resource_name]))[resource_name]

    found = {entry.name: entry for entry in target.run(work)}
    for each in settings:
        if each not in found:
            raise InvalidConfig(unknown_name("setting", each, found))
    shown = [
        entry
        for entry in sorted(found.values())
        if (not settings or entry.name in settings)
        and not (changed and entry.source == ConfigSource.DEFAULT_CONFIG)
    ]
    if target.as_json:
        say_json([_as_json(entry) for entry in shown])
    else:
        say_configs(shown, tells_read_only=True)
    return 0


@app.command(name="set")
def set_(
    kind: Kind,
    name: Name,
    setting: Annotated[str, Parameter(help="A setting as KEY=VALUE.")],
    /,
    *more: str,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Change settings, at once and for good.

    `semel config set broker all log.retention.ms=3600000` is for all brokers. What is set
    for one comes before what is set for all, and this before what a broker was started with.
    """
    return _alter(kind, name, parse_settings((setting, *more)), target)


@app.command
def unset(
    kind: Kind, name: Name, setting: str, /, *more: str, target: Target = DEFAULT_TARGET
) -> int:
    """Take settings back: what is set elsewhere counts again, or the default."""
    for each in (setting, *more):
        if "=" in each:
            raise ConfigError(f"{each}: name the setting alone, without a value")
    return _alter(kind, name, dict.fromkeys((setting, *more)), target)


def _alter(kind: Kind, name: str, changes: Mapping[str, str | None], target: Target) -> int:
    async def work(cluster: Cluster) -> str:
        resource, resource_name = await find_resource(cluster, kind, name)
        await configs.alter(cluster, resource, resource_name, changes)
        return resource.in_words(resource_name)

    changed = target.run(work)
    if target.as_json:
        say_json([{kind: name, "error": None}])
    else:
        say(f"changed settings of {changed}")
    return 0


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }
