"""Count the instructions of a program's measured part with callgrind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks.processes import ProcessFailedError, output_of

__all__ = ["CheckError", "build_switch", "cheapest", "count"]

PROGRAM: Final = Path(__file__).with_name("program.py")
SWITCH: Final = Path(__file__).with_name("switch.c")
START: Final = """
import runpy, sys
del sys.argv[0]
sys.path.insert(0, sys.argv.pop(0))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs the program with the tree first on the path, as another aioprod may be installed."""
_TOTAL: Final = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class CheckError(Exception):
    """Instructions can't be counted; the message says why."""


def build_switch(folder: Path) -> Path:
    """Return the library with which the program turns counting on and off; build it if it is missing or outdated."""
    if shutil.which("valgrind") is None:
        raise CheckError("There is no valgrind here, which counts the instructions: run `apt-get install valgrind`.")
    built = folder / "switch.so"
    if not built.exists() or built.stat().st_mtime < SWITCH.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        compiler = str(sysconfig.get_config_var("CC") or "cc").split()
        run = subprocess.run(
            [*compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(SWITCH)],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise CheckError(f"{SWITCH.name} can't be compiled, which takes a C compiler and valgrind.h: {run.stderr}")
    return built


async def count(tree: Path, arguments: list[str], switch: Path, folder: Path) -> int:
    """Return the instructions of the cheapest round of the program with the aioprod of a tree.

    The profiles are kept in `folder`. Raises CheckError if the program fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The hash seed is fixed, as dicts are part of the work.
    environment = dict(os.environ, PYTHONHASHSEED="0", AIOPROD_NO_EXT="")
    command = [
        "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        f"--callgrind-out-file={folder / 'profile'}",
        sys.executable,
        "-c",
        START,
        str(tree),
        str(PROGRAM),
        *arguments,
        str(switch),
    ]
    try:
        await output_of(*command, folder=tree, environment=environment)
    except ProcessFailedError as error:
        raise CheckError(f"`{' '.join(arguments)}` under valgrind failed:\n{error}") from None
    return cheapest(path.read_text(errors="replace") for path in folder.iterdir())


def cheapest(profiles: Iterable[str]) -> int:
    """Return the lowest count of all profiles with instructions; raises CheckError if there is none."""
    totals = [int(number) for profile in profiles for number in _TOTAL.findall(profile)]
    counted = [total for total in totals if total]
    if not counted:
        raise CheckError("callgrind counted no instructions: the switch did not reach it.")
    return min(counted)
