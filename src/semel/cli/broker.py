"""`semel broker`: the brokers of a cluster, and their settings."""

from typing import Annotated

from cyclopts import App, Parameter

from semel.cli import config as configs
from semel.cli.arguments import DEFAULT_TARGET, Target
from semel.cli.output import say_json, say_table
from semel.client.admin.asynchronous import ClusterDescription, describe_cluster

app = App(name="broker", help="List the brokers of a cluster; show and change their settings.")
config = App(name="config", help="The settings of brokers; `semel config` has those of topics too.")
app.command(config)

_Brokers = Annotated[str, Parameter(help="The id of a broker, or `all` for all brokers.")]


@app.command(name="list")
def list_brokers(*, target: Target = DEFAULT_TARGET) -> int:
    """List brokers: where they listen, and which one decides about topics."""
    found = target.run(describe_cluster)
    if target.as_json:
        say_json(
            [
                {
                    "broker": broker_id,
                    "host": address.host,
                    "port": address.port,
                    "controller": broker_id == found.controller_id,
                }
                for broker_id, address in found.brokers.items()
            ]
        )
    else:
        say_brokers(found)
    return 0


def say_brokers(found: ClusterDescription) -> None:
    rows = [
        (broker_id, *address, "yes" if broker_id == found.controller_id else "no")
        for broker_id, address in found.brokers.items()
    ]
    say_table(("BROKER", "HOST", "PORT", "CONTROLLER"), rows)


@config.command(name="list")
def list_configs(
    broker: _Brokers | None = None,
    /,
    *settings: Annotated[str, Parameter(help="Only these; without any, all that there are.")],
    changed: Annotated[
        bool, Parameter(negative="", help="Only those that somebody has set somewhere.")
    ] = False,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Show the settings of a broker, or of the one that decides about topics."""
    if broker is None:
        broker = str(target.run(describe_cluster).controller_id)
    return configs.describe("broker", broker, *settings, changed=changed, target=target)


@config.command(name="set")
def set_config(
    broker: _Brokers,
    setting: Annotated[str, Parameter(help="A setting as KEY=VALUE.")],
    /,
    *more: str,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Change settings of a broker, or of all, at once and for good."""
    return configs.set_("broker", broker, setting, *more, target=target)


@config.command(name="unset")
def unset_config(
    broker: _Brokers, setting: str, /, *more: str, target: Target = DEFAULT_TARGET
) -> int:
    """Take settings of a broker, or of all, back: what is set elsewhere counts again."""
    return configs.unset("broker", broker, setting, *more, target=target)
