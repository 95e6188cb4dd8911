"""Compare both builds of the hot functions: `python -m benchmarks.micro [options of pyperf, such as --fast]`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyperf

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
BUILDS = {"compiled": "", "interpreted": "1"}
"""The builds, and the value of AIOPROD_NO_EXT for each."""


def main() -> int:
    """Run the suite once per build, and print the means in ns with their standard deviations, and the ratio."""
    with TemporaryDirectory() as folder:
        suites = {build: _suite(build, Path(folder) / f"{build}.json", sys.argv[1:]) for build in BUILDS}
    print(f"\n{'ns per call':<40}{'compiled':>20}{'interpreted':>22}{'ratio':>8}")
    for compiled in suites["compiled"].get_benchmarks():
        name = compiled.get_name()
        interpreted = suites["interpreted"].get_benchmark(name)
        ratio = interpreted.mean() / compiled.mean()
        print(f"{name:<40}{_shown(compiled):>20}{_shown(interpreted):>22}{ratio:>7.1f}x")
    return 0


def _suite(build: str, path: Path, options: Sequence[str]) -> pyperf.BenchmarkSuite:
    """Run the suite with one build. Raises SystemExit if the other one ran, CalledProcessError if it failed."""
    print(f"{build}:", flush=True)
    command = [sys.executable, "-m", "benchmarks.hot", "--inherit-environ", "AIOPROD_NO_EXT", "-o", str(path), *options]
    subprocess.run(command, cwd=ROOT, env=dict(os.environ, AIOPROD_NO_EXT=BUILDS[build]), check=True)
    suite = pyperf.BenchmarkSuite.load(str(path))
    if suite.get_metadata()["build"] != build:
        sys.exit(f"The {build} build was asked for and the other one ran: build the modules with `make compiled`.")
    return suite


def _shown(benchmark: pyperf.Benchmark) -> str:
    deviation = benchmark.stdev() * 1e9 if benchmark.get_nvalue() > 1 else 0.0
    return f"{benchmark.mean() * 1e9:,.0f} +- {deviation:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
