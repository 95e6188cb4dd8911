"""The command line: `python -m integration.chaos --help`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from aioprod.testing.kafka.jars import DEFAULT_VERSION
from integration.chaos import report
from integration.chaos.modes import CLIENTS, MODES
from integration.chaos.run import Options, run

__all__ = ["main"]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_RELEASES = {"4.4": DEFAULT_VERSION, "4.3": "4.3.0", "3.9": "3.9.1"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m integration.chaos", description="Sends to three real brokers under faults, and reads all back."
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="per mode; default: 3")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    parser.add_argument("--kafka", default="4.4", help="release of Kafka; default: 4.4")
    parser.add_argument("--client", choices=[*CLIENTS, "all"], default="aioprod")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default=None, help="comma-separated; default: all of the mode")
    parser.add_argument("--mechanism", choices=MECHANISMS, help="over SASL_SSL with this log-in, for aioprod")
    parser.add_argument("--folder", type=Path, default=None, help="keep the figures and the flaws' evidence there")
    parser.add_argument(
        "--write", action="store_true", help="keep the figures, and make results/results.md anew of all kept"
    )
    given = parser.parse_args()
    if given.mechanism is not None and (given.client != "aioprod" or given.write):
        parser.error("--mechanism goes with --client aioprod, and its figures are not among those that are kept.")
    return given


def main() -> int:
    """Run, print one table; the exit status is 1 when aioprod has a flaw."""
    given = _arguments()
    results = []
    for client in CLIENTS if given.client == "all" else [given.client]:
        for mode in MODES if given.mode == "all" else [given.mode]:
            options = Options(
                client=client,
                mode=mode,
                kafka=_RELEASES.get(given.kafka, given.kafka),
                minutes=given.minutes,
                seed=given.seed,
                mechanism=given.mechanism,
                faults=None if given.faults is None else tuple(given.faults.split(",")),
            )
            found = asyncio.run(run(options, lambda line: print(f"  {line}", file=sys.stderr, flush=True))).figures
            results.append(found)
            if given.folder is not None:
                given.folder.mkdir(parents=True, exist_ok=True)
                (given.folder / report.file_name(found)).write_text(json.dumps(found, indent=1) + "\n")
            if given.write:
                report.keep(found)
    print("\n".join(report.table(results)))
    for found in results:
        print("\n".join(report.evidence(found)))
    if given.write:
        report.write()
    return int(any(found["client"] == "aioprod" and found["flaws"] for found in results))


if __name__ == "__main__":
    sys.exit(main())
