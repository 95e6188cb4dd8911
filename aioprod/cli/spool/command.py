"""The arguments of `aioprod spool`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aioprod.cli.connection import add_connection_options, config_of
from aioprod.cli.running import fast_loop, run_command
from aioprod.cli.spool.drain import drain
from aioprod.cli.spool.looking import export, status, verify
from aioprod.config import ProducerConfig
from aioprod.console.frame import Parser

__all__ = ["main", "make_parser"]

_EXAMPLES: Final = (
    ("aioprod spool status /var/lib/shop/spool-*", "what waits in each folder, also while services use them"),
    ("aioprod spool drain /var/lib/shop/spool-* -b localhost:9092", "one process relays the folders of many"),
    ("aioprod spool drain copy -b localhost:9092 --until-empty", "send what a folder has, and end"),
    ("aioprod spool verify /var/lib/shop/spool", "read all records, and say where one can't be read"),
    ("aioprod spool export /var/lib/shop/spool > kept.jsonl", "the records that wait, as lines of JSON"),
)
_LOOKS: Final = "It locks and changes nothing, and works while processes have the folder open."
_ACTIONS: Final = {"status": status, "verify": verify, "export": export}


def main(arguments: Sequence[str]) -> int:
    """Run one of the actions; returns 0 when it was done, 1 where a folder is damaged or can't be used."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    if given.action != "drain":
        return _ACTIONS[given.action](given)
    with parser.usage_errors():
        config = config_of(given, ProducerConfig, {"client.id": "aioprod-spool"}, unused=["transactional.id"])
    return run_command(drain(given, config), fast_loop())


def make_parser() -> Parser:
    """The parser of `aioprod spool`."""
    parser = Parser(
        prog="aioprod spool",
        description="Look at the folders in which a SpooledProducer keeps records until they are in Kafka; bring these "
        "records to Kafka; and help a folder that is damaged, or a copy.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    each = actions.add_parser(
        "status",
        help="how many records wait, since when, and whether processes have the folder open",
        description="Show how many records of a folder are not in Kafka as far as the folder knows (it notes that when "
        f"a file is delivered as a whole, and at the end of a process), and whether processes have it open. {_LOOKS}",
    )
    each.add_argument("folders", metavar="FOLDER", nargs="+", help="the folder of a spool")
    _add_json(each)
    _add_verify(
        actions.add_parser(
            "verify",
            help="read all records, and say what is damaged; drop it; give a copy an id of its own",
            description="Read all records of a folder, and say in a sentence for each place which can't be read. The "
            f"exit status is 1 where that is so. {_LOOKS} The two options that change the folder need it closed.",
        )
    )
    _add_drain(
        actions.add_parser(
            "drain",
            help="bring the records of folders to Kafka",
            description="Bring the records of folders to Kafka, each once and in order, while the processes that write "
            "them run (a SpooledProducer with relays=False) or not. A folder that fails for good, as its marker is "
            "another's or another process relays it, does not end the others; the exit status is 1 then.",
        )
    )
    each = actions.add_parser(
        "export",
        help="write the records that wait as lines of JSON",
        description="Write the records of a folder that are not in Kafka as far as the folder knows, each as a JSON "
        f"object in a line. It ends with status 1 at a record that can't be read. {_LOOKS}",
    )
    each.add_argument("folder", metavar="FOLDER", help="the folder of a spool")
    which = each.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="also records that were delivered and are still in the files")
    which.add_argument("--set-aside", action="store_true", help="those that brokers did not take, with the reasons")
    return parser


def _add_verify(parser: Parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a spool")
    parser.add_argument(
        "--give-up-damaged",
        action="store_true",
        dest="drop_damaged",
        help="write damaged files again without the records that can't be read, so that those behind them can be sent; "
        "all others keep their numbers and their order; what a file was stays beside it as NAME.damaged",
    )
    parser.add_argument(
        "--new-id",
        action="store_true",
        help="make the folder, such as a copy of another one, a spool of its own: it sends all records that it has, so "
        "those that the other one has sent too, or will send, are in Kafka twice; if it is interrupted, run it again",
    )
    _add_json(parser)


def _add_drain(parser: Parser) -> None:
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="the folder of a spool")
    parser.add_argument("--until-empty", action="store_true", help="end with status 0 when nothing is left in them")
    parser.add_argument(
        "--poison",
        choices=["stop", "set-aside"],
        default="stop",
        help="what becomes of a record that brokers will never take: stop relaying its folder, or write it to a file "
        "there, with the reason (default: stop)",
    )
    parser.add_argument(
        "--delivery",
        choices=["exactly-once", "at-least-once"],
        default="exactly-once",
        help="the latter for brokers without transactions: records may be repeated (default: exactly-once)",
    )
    parser.add_argument(
        "--marker-topic",
        metavar="TOPIC",
        help="whose partition 0 has the marker (default: the topic of the first record)",
    )
    _add_json(parser)
    add_connection_options(parser)


def _add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="write a JSON document to stdout")
