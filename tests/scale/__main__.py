"""The command line: `python -m tests.scale --help`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any, Final

from tests.scale import pictures
from tests.scale.crowd import computed, simulated
from tests.scale.page import PAGE, RESULTS, with_tables
from tests.scale.restarts import modelled, outage
from tests.scale.rolling import rolling_restart
from tests.scale.single import SIZES, measure
from tests.scale.split import cut

__all__ = ["main", "measured"]

FLEET: Final = 10_000
"""The producers that are computed, not simulated."""


def measured(share: float) -> dict[str, Any]:
    """Measure and simulate everything, at a share of the full sizes."""

    def part(count: int, least: int) -> int:
        return max(least, round(count * share))

    results: dict[str, Any] = {}
    _show("one producer")
    results["single"] = [asdict(measure(size)) for size in SIZES[: part(len(SIZES), 1)]]
    _show("crowds")
    results["crowd"] = [
        {"simulated": asdict(simulated(count, 3)), "computed": asdict(computed(count, 3))}
        for count in (10, 50, 200)[: part(3, 1)]
    ]
    results["fleet"] = [asdict(computed(FLEET, brokers)) for brokers in (3, 30, 300)]
    _show("an outage")
    results["outage"] = {
        "simulated": asdict(outage(part(200, 5), 3, 60.0)) | _peaks(outage(part(200, 5), 3, 60.0)),
        "modelled": asdict(modelled(part(200, 5), 60.0)) | _peaks(modelled(part(200, 5), 60.0)),
        "fleet": asdict(modelled(FLEET, 60.0)) | _peaks(modelled(FLEET, 60.0)),
    }
    _show("a rolling restart")
    results["rolling"] = asdict(rolling_restart(part(20, 2), part(30, 3)))
    _show("a network cut in two")
    results["cut"] = [asdict(cut(part(10, 2), 6, 300.0, moves=moves)) for moves in (True, False)]
    return results


def _peaks(comeback: Any) -> dict[str, float]:
    return {"peak": round(comeback.peak, 2), "steady_peak": round(comeback.steady_peak, 2)}


def _show(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def main() -> int:
    """Measure, and write the results, the page and its pictures; with `--quick` only print a small run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.scale", description="Simulates aioprod in clusters of any size."
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes, and nothing is written")
    parser.add_argument("--page", action="store_true", help="write the page again from the results that are there")
    arguments = parser.parse_args()
    if arguments.quick:
        print(json.dumps(measured(0.1), indent=1))
        return 0
    if not arguments.page:
        RESULTS.write_text(json.dumps(measured(1.0), indent=1) + "\n")
    results = json.loads(RESULTS.read_text())
    PAGE.write_text(with_tables(PAGE.read_text(), results))
    pictures.write(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
