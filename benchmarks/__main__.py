"""The command line: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Collection

from benchmarks import report
from benchmarks.brokers import BROKERS
from benchmarks.rows import ROWS
from benchmarks.run import Options, run

__all__ = ["main", "selected"]

RUNS = 5
QUICK_SCALE = 0.1


def selected(given: str, known: Collection[str], what: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list, or all; a word that is no name stands for all that begin with it and
    a hyphen. An unknown name ends the program.
    """
    found: list[str] = []
    for word in given.split(",") if given else known:
        names = [word] if word in known else [name for name in known if name.startswith(f"{word}-")]
        if not names:
            sys.exit(f"There is no {what} {word!r}: it must be one of {', '.join(known)}.")
        found += names
    return tuple(dict.fromkeys(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures aioprod beside aiokafka, confluent-kafka, kcat and Java's client.",
    )
    parser.add_argument("--list", action="store_true", help="name the rows and their contenders, and end")
    parser.add_argument("--rows", default="", help="comma-separated; 'read' stands for all of 'read-...'; default: all")
    parser.add_argument(
        "--brokers", default="", help=f"comma-separated, of {', '.join(BROKERS)}; default: each row's own"
    )
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
            labels = ", ".join(contender.label for contender in row.contenders)
            print(f"{row.name:<20}{row.title}, on {', '.join(row.brokers)}; {labels}")
        return 0
    options = Options(
        rows=selected(arguments.rows, ROWS, "row"),
        brokers=selected(arguments.brokers, BROKERS, "broker") if arguments.brokers else (),
        runs=arguments.runs or (1 if arguments.quick else RUNS),
        records=arguments.records,
        scale=QUICK_SCALE if arguments.quick else 1.0,
        only=arguments.only,
        wrap=arguments.wrap,
    )
    # Like Ctrl-C, this also ends the running contender and broker.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = asyncio.run(run(options))
    print("", *report.ahead(results), "", *report.target_tables(results), sep="\n")
    failed = any("failure" in entry for entry in results["entries"])
    if arguments.write and failed:
        print("\nThe figures are not written, as a contender failed.", file=sys.stderr)
    elif arguments.write:
        report.write(results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
