"""`python -m aioprod.spark load`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from aioprod.config._properties import parse_properties
from aioprod.console.files import write
from aioprod.console.frame import Parser
from aioprod.errors import ConfigError
from aioprod.spark.inputs import read_input, session, spark_errors
from aioprod.spark.known_columns import check_columns
from aioprod.spark.loading.beforehand import check
from aioprod.spark.loading.job import load

__all__ = ["add_settings", "main", "settings_of", "write_json"]

_EXAMPLE: Final = """example:
  python -m aioprod.spark load --from parquet:orders/ --topic orders --bootstrap-servers localhost:9092 \\
      --key order_id --value 'to_json(struct(*))' --header source="'backfill'" --timestamp ordered_at \\
      --rate 50MB/s --run-id orders-2024-06 --manifest manifests/orders-2024-06 --resume
"""


def main(arguments: list[str]) -> int:
    """Returns 0 when all is in the topic, or could be, 1 where a dry run found rows that can't be sent.

    Exits with 2 for wrong arguments, as far as that can be seen before Spark starts.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    with parser.usage_errors():
        options = settings_of(given)
        expressions = {"value": given.value, "key": given.key, "timestamp": given.timestamp}
        expressions |= {"order_by": given.order_by, **{f"header {name!r}": text for name, text in given.header}}
        check_columns(given.source, expressions)
        check(
            bootstrap_servers=given.bootstrap_servers,
            topic=given.topic,
            key=given.key,
            partitioner=given.partitioner,
            rate=given.rate,
            run_id=given.run_id,
            manifest=given.manifest,
            resume=given.resume,
            dry_run=given.dry_run,
            when_marker_is_missing=given.when_marker_is_missing,
            options=options,
        )
    with session() as spark:
        df = read_input(spark, given.source)
        with spark_errors("The load failed"):
            report = load(
                df,
                bootstrap_servers=given.bootstrap_servers,
                topic=given.topic,
                value=given.value,
                key=given.key,
                headers=dict(given.header) or None,
                timestamp=given.timestamp,
                partitioner=given.partitioner,
                rate=given.rate,
                chunks=given.chunks,
                run_id=given.run_id,
                manifest=given.manifest,
                dry_run=given.dry_run,
                resume=given.resume,
                order_by=given.order_by,
                tasks=given.tasks,
                when_marker_is_missing=given.when_marker_is_missing,
                **options,
            )
    sys.stdout.write(f"{report}\n")
    write_json(given.json, report.to_dict())
    return 1 if report.dry_run is not None and report.dry_run.oversize else 0


def _parser() -> Parser:
    parser = Parser(
        prog="python -m aioprod.spark load",
        description="Write Parquet, CSV, JSON or a table to a topic, chunk by chunk, each exactly once.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kinds = "json:PATH, parquet:PATH, csv:PATH or table:NAME"
    parser.add_argument("--from", dest="source", required=True, metavar="KIND:PLACE", help=kinds)
    parser.add_argument("--topic", required=True)
    add_settings(parser)
    expressions = parser.add_argument_group("records (Spark SQL expressions)")
    expressions.add_argument("--value", required=True, metavar="EXPR", help="string or binary")
    expressions.add_argument("--key", metavar="EXPR", help="string or binary")
    expressions.add_argument(
        "--header", action="append", default=[], type=_header, metavar="NAME=EXPR", help="any number of them"
    )
    expressions.add_argument("--timestamp", metavar="EXPR", help="the record's timestamp; default: now")
    expressions.add_argument("--order-by", metavar="EXPR", help="order of the rows of a partition within a chunk")
    expressions.add_argument("--partitioner", default="murmur2", help="what chooses the partition (murmur2)")
    run = parser.add_argument_group("run")
    run.add_argument("--rate", metavar="50MB/s", help="at most so much, all tasks together")
    run.add_argument("--chunks", type=_count, metavar="N", help="how many transactions; default: by size")
    run.add_argument("--tasks", type=_count, metavar="N", help="how many write at once; default: all slots")
    run.add_argument("--run-id", metavar="ID", help="the name of the run; default: one is made")
    run.add_argument("--resume", action="store_true", help="continue the run if it was begun before")
    run.add_argument("--manifest", metavar="DIR", help="write there what audit compares with")
    run.add_argument("--dry-run", action="store_true", help="send nothing, say what would be sent")
    run.add_argument(
        "--when-marker-is-missing",
        default="refuse",
        choices=("refuse", "assume-committed", "assume-not-committed"),
        help="of an interrupted run whose marker has expired",
    )
    run.add_argument("--json", metavar="FILE", help="write the report there ('-': to stdout)")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _header(text: str) -> tuple[str, str]:
    name, sign, expression = text.partition("=")
    if not sign or not name or not expression:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=EXPR")
    return name, expression


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which cluster, and how to talk to it."""
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT,...")
    parser.add_argument(
        "--config", metavar="FILE", help="a .properties file with settings of Kafka clients (security, compression)"
    )
    parser.add_argument(
        "--set", action="append", default=[], type=_setting, metavar="NAME=VALUE", help="one setting of a Kafka client"
    )


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError("it is not NAME=VALUE")
    return name, value


def settings_of(given: argparse.Namespace) -> dict[str, Any]:
    """What `add_settings` led to, by Java's names; raises ConfigError."""
    from_file: dict[str, str] = {}
    if given.config:
        try:
            from_file = parse_properties(Path(given.config).read_bytes(), given.config)
        except OSError as error:
            raise ConfigError(f"The properties file {given.config!r} can't be read: {error.strerror}.") from error
    return {**from_file, **dict(given.set)}


def write_json(path: str | None, report: dict[str, Any]) -> None:
    """Write a report if that is wanted; raises UsageError where the file can't be written."""
    if path is not None:
        write(path, json.dumps(report, indent=2) + "\n", "The report")
