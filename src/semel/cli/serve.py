"""`semel serve`: run a broker. Parsed without the other commands' library, to start at once."""

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from semel.broker import log
from semel.errors import ConfigError
from semel.journal.names import is_of_a_lane
from semel.spelling import hint_at

if TYPE_CHECKING:
    from semel.broker.options import ServeOptions

_EXAMPLES = """\
examples:
  semel serve                                    on 127.0.0.1:9092, data in ./semel-data
  semel serve --ephemeral --listen 127.0.0.1:0   for a test: a free port, nothing is kept
  semel serve --workers 4                        on 127.0.0.1:9092 to 9095, a core for each
  semel serve --store s3://bucket/path --node-id 2 --listen 10.0.0.2:9092
  semel serve --store s3://bucket/path --journal postgresql://db/semel --node-id 2
  semel serve --data DIR --volumes s3://bucket/path   old data in a store
  semel serve --set num.partitions=8 --set log.retention.hours=48
  semel serve --config semel.toml                settings, and options in a table [serve]
"""

_DATA: Final = Path("semel-data")
"""Where nobody named a folder: this very object."""


def main(arguments: Sequence[str]) -> int:
    told = options_of(arguments)
    log.configure(told.log_level, told.log_format)
    if told.ephemeral and told.data is not _DATA:
        raise ConfigError(
            f"--data {told.data} keeps data for good, and --ephemeral nothing: choose one"
        )
    if not told.ephemeral and told.store is None:
        _check_folder(told.data)
    if told.workers != 1:
        from semel.broker.parent import serve_workers

        return serve_workers(told)
    from semel.broker.main import serve

    serve(told)
    return 0


def _check_folder(folder: Path) -> None:
    """A folder that is mistyped would be filled with a journal, among what others have in it."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"--data {folder} is a file: it has to be a folder, or not there yet")
    found = sorted(each.name for each in folder.iterdir())
    # What a file system keeps for itself, and what is hidden, is in the way of nobody.
    strange = [each for each in found if not each.startswith(".") and each != "lost+found"]
    if strange and not any(is_of_a_lane(each) for each in found):
        raise ConfigError(
            f"--data {folder} holds what no broker has put there, such as {strange[0]!r}: name an "
            "empty folder, or one that is not there yet"
        )


def options_of(arguments: Sequence[str]) -> "ServeOptions":
    """Raises ConfigError."""
    from semel.broker.options import ServeOptions

    return ServeOptions(**vars(_parsed(arguments)))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """What is given here comes before what the file says."""
    its_parser = parser()
    options = its_parser.parse_args(arguments)
    if options.config is None:
        return options
    from semel.broker.config_file import OPTIONS_TABLE, options_in

    in_file = options_in(options.config)
    try:
        its_parser.check_flags(in_file)
        refused = its_parser.parse_args(in_file)
    except ConfigError as error:
        raise ConfigError(f"{options.config}: in [{OPTIONS_TABLE}]: {error}") from None
    if refused.config is not None or refused.settings:
        raise ConfigError(
            f"{options.config}: settings stand outside of [{OPTIONS_TABLE}], by their names"
        )
    return its_parser.parse_args([*in_file, *arguments])


_UNKNOWN = "unrecognized arguments: "
"""How the library begins what it says of them."""


class _Parser(argparse.ArgumentParser):
    def check_flags(self, told: Sequence[str]) -> None:
        """Refuse a value behind what has none, which a file may have said."""
        actions = self._option_string_actions
        for option, following in pairwise(told):
            if option in actions and actions[option].nargs == 0 and not following.startswith("--"):
                name = option.removeprefix("--")
                raise ConfigError(f"{name} is true or false, and not {following!r}")

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix(_UNKNOWN)
        options = [each for each in self._option_string_actions if each.startswith("--")]
        hint = "" if unknown == message else hint_at(unknown.split()[0].partition("=")[0], options)
        end = "" if hint.endswith("?") else ";"
        raise ConfigError(f"{message}{hint}{end} `{self.prog} --help` lists the options")


def parser() -> _Parser:
    made = _Parser(
        prog="semel serve",
        description="Run a broker: a durable log that Kafka clients use.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen (default: 127.0.0.1:9092; port 0 picks a free one); several with "
        "names and protocols as SASL_SSL://0.0.0.0:9093,PLAINTEXT://127.0.0.1:9092",
    )
    add(
        "--advertise",
        metavar="HOST:PORT",
        help="the address told to clients (default: the one they connected to); of several "
        "listeners as SASL_SSL://broker.example:9093",
    )
    add(
        "--data",
        metavar="DIR",
        type=Path,
        default=_DATA,
        help="the folder that holds everything (default: ./%(default)s)",
    )
    add(
        "--workers",
        metavar="N",
        type=int,
        default=1,
        help="as many processes, a core for each: N brokers of one cluster that share the folder, "
        "at this port and the next ones",
    )
    add(
        "--ephemeral",
        action="store_true",
        help="a temporary folder, gone at the end and not synced, instead of --data; with --store, "
        "take one that a power loss would empty",
    )
    add(
        "--store",
        metavar="URL",
        help="share this store with other nodes, instead of --data: s3://BUCKET/PATH, gs://, "
        "az://; file:///DIR for tests (`semel cluster create` begins it)",
    )
    add(
        "--store-option",
        metavar="KEY=VALUE",
        dest="store_options",
        action=_Collect,
        default=(),
        help="how to reach the store, as endpoint=http://127.0.0.1:9000 or region=eu-central-1; "
        "repeatable",
    )
    add(
        "--journal",
        metavar="URL",
        help="where the cluster's slots lie, if not in the store: postgresql://HOST/DATABASE",
    )
    add(
        "--node-id",
        metavar="N",
        type=int,
        help="the node's number in the cluster, which no other node has",
    )
    add(
        "--cache",
        metavar="DIR",
        type=Path,
        help="a folder for what was read of a store, and with --store for what the node works on; "
        "of one process alone, and may be lost at any time",
    )
    add(
        "--volumes",
        metavar="URL",
        help="with --data, keep old data in this store, and what is new in the folder: "
        "s3://BUCKET/PATH, gs://, az://",
    )
    add(
        "--config",
        metavar="FILE",
        type=Path,
        help="settings in a TOML file, and these options in its table [serve], without dashes",
    )
    add(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        action=_Collect,
        default=(),
        help="a setting by Kafka's name, over those in the file; repeatable "
        "(`semel config list` tells all of them)",
    )
    add(
        "--metrics",
        metavar="HOST:PORT",
        help="serve Prometheus metrics here, at /metrics, and /healthz and /readyz",
    )
    add(
        "--log-level",
        metavar="LEVEL",
        choices=tuple(log.LEVELS),
        default="info",
        help="what is told on standard error: debug, info, warning or error (default: %(default)s)",
    )
    add(
        "--log-format",
        metavar="FORMAT",
        choices=log.FORMATS,
        default="text",
        help="text, or json: an object in each line (default: %(default)s)",
    )
    add("--as-worker", metavar="N", type=int, help=argparse.SUPPRESS)
    add("--stop-with-stdin", action="store_true", help=argparse.SUPPRESS)
    return made


class _Collect(argparse.Action):
    """Gathers the values of a repeated option in a tuple."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), values))
