"""One target under atheris: `python -m tests.fuzz.search NAME [libFuzzer's options]`; ends with the first finding.

A process of its own for each target: libFuzzer never gives it back.
"""

from __future__ import annotations

import gc
import os
import sys
from types import FunctionType

os.environ["AIOPROD_NO_EXT"] = "1"

import atheris

from tests.fuzz.limits import DECOMPRESSED_MAX, SLACK, memory_max, peak
from tests.fuzz.targets import TARGETS, Target


def main(arguments: list[str]) -> None:
    """Search until libFuzzer's options end it."""
    target = TARGETS[arguments[1]]
    for function in [found for found in gc.get_objects() if isinstance(found, FunctionType)]:
        if (function.__module__ or "").startswith("aioprod."):
            atheris.instrument_func(function)
    # What a target makes only once, as the batches of `arrow`, is no memory that an input takes.
    for seed in target.seeds():
        target.check(seed)
    atheris.Setup([arguments[0], *arguments[2:]], lambda data: within_limits(target, data))
    atheris.Fuzz()


def within_limits(target: Target, data: bytes) -> None:
    """Run the target; more memory than `fuzz.limits` allows is a finding too."""
    before = peak()
    target.check(data)
    grown = peak() - before
    assert grown <= memory_max(len(data), DECOMPRESSED_MAX) + SLACK, f"{grown} bytes of memory for {len(data)}."


if __name__ == "__main__":
    main(sys.argv)
