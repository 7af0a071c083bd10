"""`semel user`: add, list and delete users, who sign in with a password."""

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from semel.access.scram import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN
from semel.cli.arguments import DEFAULT_TARGET, Target
from semel.cli.output import say, say_json, say_table
from semel.client.admin import users
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError
from semel.properties import read_text

app = App(name="user", help="Add, list and delete users, who sign in with a password.")

PASSWORD_VARIABLE = "SEMEL_USER_PASSWORD"


@app.command
def add(
    name: str,
    /,
    *,
    password_file: Annotated[
        Path | None,
        Parameter(
            help=f"A file with the password, or - for standard input; else {PASSWORD_VARIABLE} has "
            "it, or it is asked for.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        Parameter(help="The folder of a broker that has stopped: for the first user."),
    ] = None,
    new: Annotated[
        bool,
        Parameter(
            negative="", help="Make the folder of --data, if no broker has begun one there yet."
        ),
    ] = False,
    iterations: Annotated[
        int, Parameter(help="How much work a guess is; between 4096 and 16384.")
    ] = ITERATIONS,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Add a user, or give one another password.

    It is never an argument, which everybody on the machine could see.
    """
    if new and data is None:
        raise ConfigError("--new makes the folder of --data DIR, which is missing")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ConfigError(f"--iterations: between {ITERATIONS_MIN} and {ITERATIONS_MAX}")
    password = _password(password_file, name)
    if data is not None:
        # A broker is needed by this alone.
        from semel.broker.first_users import add_user

        add_user(data, name, password, iterations, is_new=new)
    else:

        async def work(cluster: Cluster) -> None:
            await users.set_password(cluster, name, password, iterations)

        target.run(work)
    _say_done("added", name, as_json=target.as_json)
    return 0


@app.command(name="list")
def list_users(*, target: Target = DEFAULT_TARGET) -> int:
    """List all users, and by which mechanisms they can sign in."""

    async def work(cluster: Cluster) -> dict[str, dict[str, int]]:
        return await users.list_all(cluster)

    found = target.run(work)
    if target.as_json:
        say_json([{"user": name, "mechanisms": of} for name, of in found.items()])
    else:
        rows = [(name, ", ".join(of)) for name, of in found.items()]
        say_table(("USER", "MECHANISMS"), rows)
    return 0


@app.command
def delete(name: str, /, *, target: Target = DEFAULT_TARGET) -> int:
    """Delete a user, whose sessions end within a second."""

    async def work(cluster: Cluster) -> None:
        await users.delete(cluster, name)

    target.run(work)
    _say_done("deleted", name, as_json=target.as_json)
    return 0


def _say_done(what: str, name: str, *, as_json: bool) -> None:
    if as_json:
        say_json([{"user": name, "error": None}])
    else:
        say(f"{what} user {name}")


def _password(file: Path | None, name: str) -> bytes:
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else read_text(file.expanduser())
        password = text.removesuffix("\n").removesuffix("\r")
    elif PASSWORD_VARIABLE in os.environ:
        password = os.environ[PASSWORD_VARIABLE]
    elif sys.stdin.isatty():
        password = getpass.getpass(f"password of {name}: ")
        if getpass.getpass("once more: ") != password:
            raise ConfigError("these are two passwords")
    else:
        raise ConfigError(
            f"a password is needed: --password-file, {PASSWORD_VARIABLE}, or a terminal to ask at"
        )
    if not password:
        raise ConfigError("the password is empty")
    return password.encode()
