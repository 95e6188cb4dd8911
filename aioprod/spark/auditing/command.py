"""`python -m aioprod.spark audit`."""

from __future__ import annotations

import sys

from aioprod.console.frame import Parser
from aioprod.reader.config import ISOLATION_LEVELS
from aioprod.spark.auditing.job import audit, check
from aioprod.spark.inputs import session, spark_errors
from aioprod.spark.loading.command import add_settings, settings_of, write_json

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Returns 0 when the topic is as the manifest promises, else 1."""
    parser = _parser()
    given = parser.parse_args(arguments)
    with parser.usage_errors():
        options = settings_of(given)
        check(
            manifest=given.manifest,
            bootstrap_servers=given.bootstrap_servers,
            topic=given.topic,
            options=options,
        )
    with session() as spark, spark_errors("The audit failed"):
        report = audit(
            spark,
            manifest=given.manifest,
            bootstrap_servers=given.bootstrap_servers,
            topic=given.topic,
            isolation=given.isolation,
            report=given.report,
            others=given.others,
            **options,
        )
    sys.stdout.write(f"{report}\n")
    if given.report is not None:
        sys.stdout.write(f"Report: {given.report}\n")
    write_json(given.json, report.to_dict())
    return 0 if report.is_clean else 1


def _parser() -> Parser:
    parser = Parser(
        prog="python -m aioprod.spark audit",
        description="Compare a topic, up to its present end, with what a load's manifest promises.",
        epilog="Exit status: 0 all is there, once, in its partition and in order; 1 it is not, or there was an error; "
        "2 wrong arguments.",
        allow_abbrev=False,
    )
    parser.add_argument("--manifest", required=True, metavar="DIR", help="the folder that load --manifest wrote to")
    parser.add_argument("--topic", required=True, help="the topic that was loaded, or a copy of it")
    add_settings(parser)
    parser.add_argument("--isolation", default="read_committed", choices=tuple(ISOLATION_LEVELS))
    parser.add_argument(
        "--others", action="store_true", help="other producers write to the topic too: rows unknown are not an error"
    )
    parser.add_argument("--report", metavar="FILE.html", help="write a page with pictures there")
    parser.add_argument("--json", metavar="FILE", help="write the report there ('-': to stdout)")
    return parser
