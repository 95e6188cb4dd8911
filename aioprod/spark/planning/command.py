"""`python -m aioprod.spark plan`."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

from aioprod.console.files import write
from aioprod.console.frame import Parser
from aioprod.console.terminal import show
from aioprod.spark.inputs import read_input, session
from aioprod.spark.known_columns import check_columns
from aioprod.spark.planning.job import checked, plan
from aioprod.spark.planning.tables import summary

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Make a plan and show it; returns 0. Raises AioprodError where that can't be done."""
    parser = _parser()
    given = parser.parse_args(arguments)
    # Mistakes that can be seen without Spark are errors before it takes its seconds to start.
    with parser.usage_errors():
        checked(given.partitioners, given.counts, given.consumers)
        check_columns(given.source, {"key": given.key, "value": given.value})
    with session() as spark:
        report = plan(
            read_input(spark, given.source),
            key=given.key,
            value=given.value,
            partitioners=given.partitioners,
            counts=given.counts,
            consumers=given.consumers,
            report=given.report,
        )
    if given.json is not None:
        write(given.json, report.to_json(), "The numbers")
    show(summary(report), sys.stdout)
    if given.report is not None:
        sys.stdout.write(f"The report is in {given.report}\n")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="python -m aioprod.spark plan",
        description="Find out from the data how many partitions a topic needs, and which partitioner.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--from", dest="source", required=True, metavar="INPUT", help="json:PATH, parquet:PATH, csv:PATH or table:NAME"
    )
    parser.add_argument("--key", required=True, metavar="EXPR", help="the records' key, an SQL expression")
    parser.add_argument(
        "--value",
        metavar="EXPR",
        help="the records' value, to count bytes; default: column value, else the row as JSON",
    )
    parser.add_argument(
        "--partitioners",
        type=_names,
        default=["murmur2"],
        metavar="NAMES",
        help="for example murmur2,crc32 (default murmur2)",
    )
    parser.add_argument("--counts", type=_counts, required=True, metavar="COUNTS", help="for example 12,24,48")
    parser.add_argument("--consumers", type=_count, metavar="N", help="members of the group that reads the topic")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write a page with tables and pictures")
    parser.add_argument("--json", metavar="FILE", help="write all numbers ('-': to stdout)")
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _counts(text: str) -> list[int]:
    return [_count(part) for part in text.split(",") if part.strip()]


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text.strip()!r} is not a whole number") from None
