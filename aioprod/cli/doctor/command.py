"""The arguments of `aioprod doctor`, and the order of its checks."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from aioprod._words import counted
from aioprod.cli.connection import add_connection_options, config_of
from aioprod.cli.doctor.cluster import check_cluster, check_distance
from aioprod.cli.doctor.findings import Finding, Findings
from aioprod.cli.doctor.servers import check_server
from aioprod.cli.doctor.topic import check_topic, check_transactions
from aioprod.cli.running import run_command
from aioprod.config import ProducerConfig, SessionConfig, parse_address
from aioprod.console.frame import Parser
from aioprod.net.settings import Address

__all__ = ["diagnose", "main", "make_parser"]

wall_clock = time.time

_CLIENT: Final = {"client.id": "aioprod-doctor"}
_WRITES: Final = "Records would be written: name a topic for them by --topic."

_EXAMPLES: Final = (
    ("aioprod doctor localhost:9092", "from the name to the partitions"),
    ("aioprod doctor -F client.properties --topic health", "with the rights to a topic, and a record there and back"),
    ("aioprod doctor kafka:9093 -X security.protocol=SSL --json", "for programs"),
)


def main(arguments: Sequence[str]) -> int:
    """Check; returns 1 if something failed, else 0."""
    parser = make_parser()
    return run_command(diagnose(parser.parse_args(arguments), parser))


async def diagnose(given: Namespace, parser: Parser) -> int:
    """Check, and show the findings; ends the program with 2 where the settings are wrong."""
    if given.server is not None:
        given.bootstrap_servers = given.server
    with parser.usage_errors():
        config = config_of(given, SessionConfig, _CLIENT)
        producer = partial(_producer_config, given)
        producer({})
    findings = Findings(_print if not given.json else lambda finding: None)
    timeout_s = given.timeout
    servers = [parse_address(server) for server in config.bootstrap_servers]
    checked = []
    for address in servers:
        with findings.held() as found:
            works = await check_server(findings, config, address, timeout_s)
        checked.append((address, found, works))
    working = [address for address, _, works in checked if works]
    for _, found, works in checked:
        findings.release(found, as_warnings=bool(working) and not works)
    if working:
        dead = [address for address, _, works in checked if not works]
        nodes = await check_cluster(findings, config, working, dead, timeout_s)
        await check_distance(findings, producer({}), config, nodes, timeout_s)
        await _check_rights(findings, config, producer, given, working)
    else:
        for check in ("brokers", "distance", "write", "transactions"):
            findings.add(check, "cluster", "skipped", "No server can be worked with.")
    if given.json:
        document = {"verdict": findings.verdict, "findings": [finding._asdict() for finding in findings.all]}
        sys.stdout.write(f"{json.dumps(document)}\n")
    else:
        counts = {status: sum(one.status == status for one in findings.all) for status in ("ok", "warning", "failed")}
        warnings = counted(counts["warning"], "warning")
        sys.stdout.write(f"\n{counts['ok']} ok, {warnings}, {counts['failed']} failed\n")
    return 1 if findings.verdict == "failed" else 0


async def _check_rights(
    findings: Findings,
    config: SessionConfig,
    producer: Callable[[dict[str, Any]], ProducerConfig],
    given: Namespace,
    working: list[Address],
) -> None:
    if given.topic is None:
        findings.add("write", "topic", "skipped", _WRITES)
    else:
        await check_topic(findings, config, producer, working, given.topic, given.timeout, lambda: wall_clock())
    if given.transactional_id is None:
        findings.add("transactions", "cluster", "skipped", "Name one by --transactional-id.")
    else:
        await check_transactions(findings, producer({"transactional.id": given.transactional_id}))


def _producer_config(given: Namespace, more: dict[str, Any]) -> ProducerConfig:
    limit_ms = max(1, round(given.timeout * 1000))
    limits = {
        "max.block.ms": 2 * limit_ms,
        "request.timeout.ms": limit_ms,
        "delivery.timeout.ms": 2 * limit_ms,
        "linger.ms": 0,
    }
    config = config_of(given, ProducerConfig, {**_CLIENT, **limits})
    return config.replace(**{name.replace(".", "_"): value for name, value in more.items()})


def _print(finding: Finding) -> None:
    sys.stdout.write(f"{finding.line()}\n")
    sys.stdout.flush()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 600:
        raise ArgumentTypeError(f"{text!r} is not a time in seconds, up to 600")
    return seconds


def make_parser() -> Parser:
    """The parser of `aioprod doctor`."""
    parser = Parser(
        prog="aioprod doctor",
        description="Find out why a client can't work with a cluster: names, TCP, what speaks there, TLS, log-in, "
        "versions, advertised listeners, partitions, distance, rights and clocks. Each line is ok, warning, failed or "
        "skipped, with a sentence, and with what to do. The status is 1 if something failed.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    parser.add_argument("server", metavar="HOST:PORT", nargs="?", help="where to begin, in place of -b")
    parser.add_argument("--topic", metavar="NAME", help="write records to this topic, and read one back")
    parser.add_argument("--transactional-id", metavar="NAME", help="begin a transaction of this name, and abort it")
    parser.add_argument("--timeout", type=_seconds, default=5.0, metavar="SECONDS", help="for each step (default: 5)")
    parser.add_argument("--json", action="store_true", help="write a JSON document to stdout")
    add_connection_options(parser, servers_required=False)
    return parser
