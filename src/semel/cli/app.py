"""All commands but the one that runs a broker, and the help of all of them."""

from cyclopts import App

from semel import __version__
from semel.cli import (
    acl,
    broker,
    cluster,
    cluster_status,
    config,
    control,
    group,
    log,
    pipeline,
    quota,
    steering,
    topic,
    txn,
    user,
)
from semel.cli.cluster_info import info
from semel.cli.completion import completion
from semel.cli.consume import consume
from semel.cli.produce import produce
from semel.cli.repair import repair
from semel.cli.run import run

app = App(
    name="semel",
    help="A log that speaks Kafka's protocol and delivers exactly once.",
    version=__version__,
    version_flags=["--version", "-V"],
)
app.command(topic.app)
app.command(produce)
app.command(consume)
app.command(run)
app.command(control.app)
app.command(group.app)
app.command(pipeline.app)
app.command(txn.app)
app.command(acl.app)
app.command(config.app)
app.command(broker.app)
app.command(quota.app)
app.command(user.app)
app.command(log.app)
app.command(cluster.app)
cluster.app.command(info)
cluster.app.command(cluster_status.status)
cluster.app.command(steering.move)
cluster.app.command(steering.drain)
cluster.app.command(steering.lanes)
cluster.app.command(steering.rebalance)
cluster.app.command(steering.upgrade)
cluster.app.command(steering.rotate_key)
cluster.app.command(repair)
app.command(completion)


@app.command
def serve(*arguments: str) -> int:
    """Run a broker. `semel serve --help` lists its options."""
    from semel.cli.serve import main

    return main(list(arguments))
