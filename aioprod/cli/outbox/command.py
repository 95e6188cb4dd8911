"""The arguments of `aioprod outbox`."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Final

from aioprod.cli.connection import add_connection_options, config_of
from aioprod.cli.outbox.database import database_of
from aioprod.cli.outbox.relaying import relay
from aioprod.cli.running import fast_loop, run_command
from aioprod.config import ProducerConfig
from aioprod.console.frame import Parser
from aioprod.outbox import Outbox
from aioprod.outbox.statements import DIALECTS

__all__ = ["main", "make_parser"]

_EXAMPLES: Final = (
    ("aioprod outbox ddl > outbox.sql", "the statements that create the tables in Postgres"),
    ("aioprod outbox ddl sqlite --table shop_outbox > outbox.sql", "the same for SQLite, with another name"),
    ("aioprod outbox relay --database shop.db -b localhost:9092 --id shop-outbox", "relay a file of SQLite"),
    (
        "aioprod outbox relay --database env:DATABASE -b localhost:9092 --id shop-outbox --listen 0.0.0.0:8080",
        "a container: its DSN is in the environment, and probes and metrics are at port 8080",
    ),
)
_PORT_MAX: Final = 65_535


def main(arguments: Sequence[str]) -> int:
    """Run one of the actions; returns 0 when the statements were written, or a signal has ended the relay."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    with parser.usage_errors():
        outbox = Outbox(given.table)
        if given.action == "ddl":
            sys.stdout.write(outbox.ddl(given.dialect))
            return 0
        config = config_of(given, ProducerConfig, {"client.id": "aioprod-outbox"}, unused=["transactional.id"])
        table = database_of(given.database, outbox)
    return run_command(relay(given, config, table), fast_loop())


def make_parser() -> Parser:
    """The parser of `aioprod outbox`."""
    parser = Parser(
        prog="aioprod outbox",
        description="Create the tables of an Outbox, into which a service puts records in the transactions of the rows "
        "that they are about, and bring these records to Kafka, each once.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    each = actions.add_parser(
        "ddl",
        help="write the statements that create the tables",
        description="Write the statements that create the two tables of an outbox, those of Outbox.ddl().",
    )
    each.add_argument(
        "dialect",
        choices=DIALECTS,
        nargs="?",
        default=DIALECTS[0],
        help=f"the kind of database (default: {DIALECTS[0]})",
    )
    _add_table(each)
    _add_relay(
        actions.add_parser(
            "relay",
            help="bring the rows of an outbox to Kafka",
            description="Bring the rows of an outbox to Kafka, each once and in order, and delete them, until Ctrl-C "
            "or SIGTERM: its status is 0 then. It waits until no other relay has the table, so a second one takes over "
            "when the first one ends. Only at the start the database must be there; later what may pass, such as a "
            "database or a broker that is away, is logged and tried again. The rest ends it with status 1.",
        )
    )
    return parser


def _add_relay(parser: Parser) -> None:
    parser.add_argument(
        "--database",
        metavar="DSN",
        required=True,
        help="a DSN of Postgres (postgresql://user@host/name, or host=... dbname=...), anything else is a file of "
        "SQLite; of a DSN with a password name the place, such as env:DATABASE or file:/run/secrets/database",
    )
    _add_table(parser)
    parser.add_argument(
        "--id",
        metavar="NAME",
        required=True,
        help="the transactional id: one for each outbox, the same at each start; the marker in Kafka has it",
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
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=_address,
        help="answer HTTP requests there: /live, /ready (503 where no rows leave; a relay that waits for the end of "
        "another one is ready), and /metrics for Prometheus (needs the extra prometheus)",
    )
    add_connection_options(parser)


def _add_table(parser: Parser) -> None:
    parser.add_argument("--table", default="outbox", help="the table, or schema.table (default: outbox)")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ArgumentTypeError(f"{text!r} is no address: write it as 0.0.0.0:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)
