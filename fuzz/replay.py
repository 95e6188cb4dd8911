"""Files through a target, without atheris: `python -m fuzz.replay NAME FILE_OR_FOLDER...` shows what a finding does."""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz.targets import TARGETS


def main(name: str, *places: str) -> None:
    """Run everything in the given places; a finding ends it with its traceback."""
    read = accepted = 0
    for place in map(Path, places):
        for path in sorted(place.iterdir()) if place.is_dir() else [place]:
            accepted += TARGETS[name].check(path.read_bytes())
            read += 1
    print(f"{name}: {read} inputs, of which {accepted} are read without an error.")


if __name__ == "__main__":
    main(*sys.argv[1:])
