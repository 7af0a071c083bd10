"""`semel quota`: show and change how much clients may ask of each broker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from semel.access.quotas import EVERY_OTHER, Entity
from semel.cli.arguments import DEFAULT_TARGET, Target, parse_settings
from semel.cli.output import say, say_json, say_table
from semel.client.admin import quotas
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, ResourceNotFound

app = App(name="quota", help="Show and change how much clients may ask of each broker.")

COLUMNS = ("USER", "CLIENT ID", "ADDRESS", "QUOTA", "VALUE")
DEFAULT_SHOWN = "<default>"


@Parameter(name="*")
@dataclass(frozen=True)
class Whom:
    """For whom a quota is."""

    user: Annotated[str | None, Parameter(help="A user.")] = None
    user_defaults: Annotated[
        bool, Parameter(negative="", help="All users who have no quota of their own.")
    ] = False
    client_id: Annotated[
        str | None, Parameter(help="A client id; with a user, that user's clients of this id.")
    ] = None
    client_defaults: Annotated[
        bool, Parameter(negative="", help="All client ids that have no quota of their own.")
    ] = False
    ip: Annotated[str | None, Parameter(help="An address that clients connect from.")] = None
    ip_defaults: Annotated[
        bool, Parameter(negative="", help="All addresses that have no quota of their own.")
    ] = False

    @property
    def entity(self) -> Entity:
        return Entity(
            _name("user", self.user, self.user_defaults),
            _name("client-id", self.client_id, self.client_defaults),
            _name("ip", self.ip, self.ip_defaults),
        )


NOBODY = Whom()


def _name(kind: str, name: str | None, is_default: bool) -> str | None:
    if name is not None and is_default:
        raise ConfigError(f"--{kind} names one, and its defaults are for all others: choose one")
    if name == "":
        raise ConfigError(f"--{kind} is empty")
    return EVERY_OTHER if is_default else name


def _entity(whom: Whom) -> Entity:
    entity = whom.entity
    if entity == Entity():
        raise ConfigError("say for whom: --user, --client-id or --ip, or --user-defaults and so on")
    return entity


@app.command(name="list")
def list_(*, whom: Whom = NOBODY, target: Target = DEFAULT_TARGET) -> int:
    """Show all quotas that are set, or those of one user, client id or address."""
    entity = whom.entity

    async def work(cluster: Cluster) -> dict[Entity, dict[str, float]]:
        return await quotas.describe(cluster, None if entity == Entity() else entity)

    found = target.run(work)
    rows = [
        (each, name, value)
        for each, values in sorted(found.items(), key=lambda item: str(item[0]))
        for name, value in sorted(values.items())
    ]
    if target.as_json:
        say_json([{**_parts(each), "quota": name, "value": value} for each, name, value in rows])
    else:
        say_table(
            COLUMNS,
            [(*_parts(each).values(), name, _number(value)) for each, name, value in rows],
        )
    return 0


@app.command(name="set")
def set_(
    quota: Annotated[
        str,
        Parameter(
            help="producer_byte_rate, consumer_byte_rate, request_percentage or "
            "connection_creation_rate, as NAME=VALUE."
        ),
    ],
    /,
    *more: str,
    whom: Whom = NOBODY,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Set quotas, at once and for good: `semel quota set producer_byte_rate=1048576 --user ann`.

    Rates are bytes and new connections each second; a percentage is of the time of a
    broker's loop. Whoever uses more has to wait.
    """
    changes = {name: _value(name, text) for name, text in parse_settings((quota, *more)).items()}
    return _alter(whom, changes, target)


@app.command
def remove(
    *names: Annotated[str, Parameter(help="Only these; without any, all there are.")],
    whom: Whom = NOBODY,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Take quotas back: those for more clients count again, if there are any."""
    for each in names:
        if "=" in each:
            raise ConfigError(f"{each}: name the quota alone, without a value")
    return _alter(whom, dict.fromkeys(names), target)


def _alter(whom: Whom, changes: Mapping[str, float | None], target: Target) -> int:
    entity = _entity(whom)

    async def work(cluster: Cluster) -> None:
        wanted = changes
        if not changes or None in changes.values():
            kept = (await quotas.describe(cluster, entity)).get(entity, {})
            missing = [name for name in changes if name not in kept]
            if missing or not kept:
                raise ResourceNotFound(f"{entity} has no {missing[0] if missing else 'quotas'}")
            wanted = changes or dict.fromkeys(kept)
        await quotas.alter(cluster, entity, wanted)

    target.run(work)
    if target.as_json:
        say_json([{**_parts(entity), "error": None}])
    else:
        say(f"changed quotas of {entity}")
    return 0


def _value(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name}={text}: must be a number") from None


def _parts(entity: Entity) -> dict[str, str | None]:
    return {
        part: DEFAULT_SHOWN if name == EVERY_OTHER else name
        for part, name in entity._asdict().items()
    }


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:g}"
