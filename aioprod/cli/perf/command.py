"""The command line of `aioprod perf`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final

from aioprod.cli.connection import add_connection_options, config_of
from aioprod.cli.perf import report
from aioprod.cli.perf.comparing import compare
from aioprod.cli.perf.end_to_end import send_and_read
from aioprod.cli.perf.load import STYLES, Load, Payload
from aioprod.cli.perf.meter import Meter
from aioprod.cli.perf.peers import check_settings, peers_of
from aioprod.cli.perf.sending import send_load
from aioprod.cli.perf.shown import shown
from aioprod.cli.running import fast_loop, run_command
from aioprod.config import ProducerConfig
from aioprod.console.files import write
from aioprod.console.frame import Parser
from aioprod.console.pictures import picture_file
from aioprod.console.terminal import show
from aioprod.errors import UsageError

__all__ = ["defaults", "main", "make_parser"]

_SECONDS: Final = 10.0
_EXAMPLES: Final = (
    ("aioprod perf orders -b host:9092 --seconds 30", "as many records of 100 bytes as the topic takes"),
    ("aioprod perf orders -b host:9092 --records 100000 --rate 2000 --size 500", "latencies at a rate of every day"),
    ("aioprod perf orders -b host:9092 --e2e --records 1000", "from sending a record until a consumer has it"),
    ("aioprod perf orders -b host:9092 --compare confluent,aiokafka", "the same load by other clients"),
    ("aioprod perf orders -b host:9092 --seconds 60 --json --picture perf.png > perf.json", "for a report"),
)


def main(arguments: Sequence[str]) -> int:
    """Send, and report; returns 1 where a record failed. What is wrong with the arguments ends the program with 2."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    if given.compare and (given.e2e or given.picture):
        parser.error("--compare goes neither with --e2e nor with --picture")
    load = _load(given)
    with parser.usage_errors():
        config = config_of(given, ProducerConfig, defaults(e2e=given.e2e))
        if load.style == "send_arrow" and find_spec("pyarrow") is None:
            raise UsageError("--style send_arrow needs pyarrow.", hint="pip install 'aioprod[arrow]'")
        payload = Payload(load)
        for peer in given.compare:
            check_settings(peer, config)
    if given.compare:
        return _compare(given, load)
    meter = Meter()
    interrupted = True
    try:
        run_command(_measure(config, load, payload, meter, e2e=given.e2e), fast_loop())
        interrupted = False
    finally:
        # An error or Ctrl-C ends it, and what was done until then is worth knowing.
        if meter.has_begun:
            found = report.document(config, load, meter, e2e=given.e2e, interrupted=interrupted)
            _report(given, found)
            _draw(given, found, meter)
    return int(meter.failed > 0)


def defaults(*, e2e: bool) -> dict[str, Any]:
    """The settings that lose against those that are given: what an interrupted load still has is not waited for."""
    return {"client.id": "aioprod-perf", "close.timeout.ms": 5000} | ({"linger.ms": 0} if e2e else {})


async def _measure(config: ProducerConfig, load: Load, payload: Payload, meter: Meter, *, e2e: bool) -> int:
    async with shown(meter, sys.stderr):
        await (send_and_read if e2e else send_load)(config, load, payload, meter)
    return 0


def _compare(given: Namespace, load: Load) -> int:
    connection = {name: getattr(given, name) for name in ("bootstrap_servers", "config_file", "setting")}
    found: dict[str, dict[str, Any]] = {}
    try:
        run_command(compare(["aioprod", *given.compare], connection, load, found, sys.stderr))
    finally:
        if found and given.json:
            sys.stdout.write(json.dumps({"config": load.to_dict(), "clients": found}, indent=1) + "\n")
        elif found:
            show([report.comparison(found, load.rate)], sys.stdout)
    return int(any(one["failed"] for one in found.values()))


def _report(given: Namespace, found: dict[str, Any]) -> None:
    if given.json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    else:
        show(report.parts(found), sys.stdout)


def _draw(given: Namespace, found: dict[str, Any], meter: Meter) -> None:
    if given.picture is None:
        return
    title = f"{given.topic}: {found['records']:,} records, {found['records_per_s']:,.0f} a second"
    drawn = report.latency_picture(meter.seconds, title, given.picture.suffix[1:])
    write(given.picture, drawn, "The picture")


def _load(given: Namespace) -> Load:
    return Load(
        topic=given.topic,
        records=given.records,
        seconds=given.seconds if given.seconds is not None or given.records is not None else _SECONDS,
        size=given.size,
        key_size=given.key_size,
        rate=given.rate,
        style=given.style,
        seed=given.seed,
        chunk=given.chunk,
        tasks=given.tasks,
        payload_file=given.payload_file,
    )


def make_parser() -> Parser:
    """The parser of `aioprod perf`."""
    parser = Parser(
        prog="aioprod perf",
        description="Send records to a topic, and say how many a second it takes and how long each takes. The records "
        "stay in the topic: take one for tests.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    _add_load_options(parser)
    parser.add_argument(
        "--e2e",
        action="store_true",
        help="send one record, wait until a consumer has read it, send the next one: latencies from end to end",
    )
    parser.add_argument(
        "--compare",
        type=peers_of,
        default=[],
        metavar="CLIENT,...",
        help="confluent, aiokafka: the same load by these clients, too, and by each in a process of its own; they "
        "send with their own fastest call for single records",
    )
    parser.add_argument("--json", action="store_true", help="report as a JSON document on stdout")
    parser.add_argument(
        "--picture", type=picture_file, metavar="FILE", help="draw the latencies of each second: .png, .svg or .pdf"
    )
    add_connection_options(parser)
    return parser


def _add_load_options(parser: Parser) -> None:
    group = parser.add_argument_group("the load")
    length = group.add_mutually_exclusive_group()
    length.add_argument("--records", type=_number(int, 1), metavar="COUNT", help="how many records to send")
    length.add_argument(
        "--seconds", type=_number(float, 0.001), help=f"how long to send (default: {_SECONDS:g} seconds)"
    )
    values = group.add_mutually_exclusive_group()
    values.add_argument(
        "--size", type=_number(int, 0), default=100, metavar="BYTES", help="bytes of a value (default: %(default)s)"
    )
    values.add_argument("--payload-file", metavar="FILE", help="values are the lines of this file, in turn")
    group.add_argument(
        "--key-size", type=_number(int, 0), default=0, metavar="BYTES", help="bytes of a key; 0, the default: no keys"
    )
    group.add_argument(
        "--rate", type=_rate, metavar="COUNT|max", help="records a second (default: max, as fast as possible)"
    )
    group.add_argument(
        "--style",
        choices=STYLES,
        default=STYLES[0],
        help="the call: send_nowait (callbacks), send (awaited, by --tasks tasks), send_many or send_arrow (--chunk "
        "records a call, one call after the other, whose latency is that of all its records) (default: %(default)s)",
    )
    group.add_argument(
        "--chunk",
        type=_number(int, 1),
        default=10_000,
        metavar="COUNT",
        help="records of one call of send_many or send_arrow (default: %(default)s)",
    )
    group.add_argument(
        "--tasks",
        type=_number(int, 1),
        default=100,
        metavar="COUNT",
        help="calls of send that wait at a time (default: %(default)s)",
    )
    group.add_argument(
        "--seed", type=int, default=1, metavar="NUMBER", help="of the random bytes (default: %(default)s)"
    )


def _number(kind: Callable[[str], float], least: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if not least <= value < float("inf"):
            what = "whole number" if kind is int else "number"
            raise ArgumentTypeError(f"{text!r} is not a {what} from {least:g} on")
        return value

    return read


def _rate(text: str) -> float | None:
    return None if text == "max" else _number(float, 0.001)(text)
