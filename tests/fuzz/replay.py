"""Runs a target over files, without atheris: `python -m tests.fuzz.replay NAME FILE...` reproduces a finding."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.targets import TARGETS


def main(name: str, *places: str) -> None:
    """Run the target over files and folders; a finding ends with its traceback."""
    read = accepted = 0
    for place in map(Path, places):
        for path in sorted(place.iterdir()) if place.is_dir() else [place]:
            accepted += TARGETS[name].check(path.read_bytes())
            read += 1
    print(f"{name}: {read} inputs, of which {accepted} are read without an error.")


if __name__ == "__main__":
    main(*sys.argv[1:])
