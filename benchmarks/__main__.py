"""The command line: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Collection

from benchmarks import report
from benchmarks.brokers import BROKERS, USUAL
from benchmarks.rows import ROWS
from benchmarks.run import Options, run

__all__ = ["main"]

RUNS = 5
QUICK_SCALE = 0.1


def _selected(given: str, known: Collection[str], what: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list, or all; an unknown name ends the program."""
    names = tuple(given.split(",")) if given else tuple(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"There is no {what} {unknown[0]!r}: it must be one of {', '.join(known)}.")
    return names


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measures aioprod beside aiokafka and confluent-kafka."
    )
    parser.add_argument("--list", action="store_true", help="name the rows and their contenders, and end")
    parser.add_argument("--rows", default="", help="comma-separated; default: all")
    parser.add_argument("--brokers", default="", help="comma-separated, of kafka, mock and tls; default: the first two")
    parser.add_argument("--runs", type=int, help=f"of each contender; default: {RUNS}")
    parser.add_argument("--records", type=int, help="of each contender, in place of each one's own number")
    parser.add_argument("--quick", action="store_true", help="one run with a tenth of the records")
    parser.add_argument("--only", default="", metavar="WORD", help="contenders whose label contains it")
    parser.add_argument("--write", action="store_true", help="write the figures in benchmarks/results and README again")
    parser.add_argument("--wrap", default="", metavar="COMMAND", help="put before each contender's, as 'perf record'")
    arguments = parser.parse_args()
    if arguments.write and (arguments.rows or arguments.brokers or arguments.only):
        parser.error("--write makes all figures from one run: it does not go with --rows, --brokers or --only")
    return arguments


def main() -> int:
    """Run the measurements that the command line selects; return 1 if a contender failed."""
    arguments = _arguments()
    if arguments.list:
        for row in ROWS.values():
            print(f"{row.name:<16}{row.title}; {', '.join(contender.label for contender in row.contenders)}")
        return 0
    options = Options(
        rows=_selected(arguments.rows, ROWS, "row"),
        brokers=_selected(arguments.brokers, BROKERS, "broker") if arguments.brokers else USUAL,
        runs=arguments.runs or (1 if arguments.quick else RUNS),
        records=arguments.records,
        scale=QUICK_SCALE if arguments.quick else 1.0,
        only=arguments.only,
        wrap=arguments.wrap,
    )
    # Like Ctrl-C, this also ends the running contender and broker.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = asyncio.run(run(options))
    print("", *report.target_table(results), sep="\n")
    failed = any("failure" in entry for entry in results["entries"])
    if arguments.write and failed:
        print("\nThe figures are not written, as a contender failed.", file=sys.stderr)
    elif arguments.write:
        report.write(results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
