"""Writes tools/*.lock: the exact versions, with hashes, of all that builds and tests aioprod.

`python -m tools.lock UV` (`make lock`) asks the package index for the newest releases that pyproject.toml allows, on
each platform and Python. All locks have the same versions. No lock names an index: pip takes the one that the machine
is set to.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["FOLDER", "LAYERS", "blocks_of"]

FOLDER: Final = Path("tools")
PROJECT: Final = Path("pyproject.toml")

LAYERS: Final[dict[str, tuple[str, ...]]] = {
    "build": (),
    "demo": (),
    "spark": ("demo",),
    "examples": ("demo",),
    "docs": ("demo",),
    "dev": ("build", "demo", "spark", "examples", "docs"),
    "gssapi": ("build", "demo", "spark", "examples", "docs", "dev"),
    "fuzz": ("build", "demo", "spark", "examples", "docs", "dev"),
    "supply": (),
    "wheel-tests": (),
}
"""The locks, and for each those that are installed before it, whose packages it leaves out."""

_NEEDS: Final = {
    "build": ["--group", f"{PROJECT}:build"],
    "supply": ["--group", f"{PROJECT}:supply"],
    "wheel-tests": [str(PROJECT), "--group", f"{PROJECT}:wheel-tests"],
    "spark": [str(PROJECT), "--extra", "spark", "--extra", "testing"],
}
"""What uv is given for the locks that are not simply those of the extra of their name."""


def blocks_of(lock: str) -> dict[str, str]:
    """The text of each package in a lock, by the line that names its version and its marker."""
    blocks = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)
    return {block.partition("\\")[0].strip(): block for block in blocks if block.strip()}


def needs_of(layer: str) -> list[str]:
    """What uv is given for the packages of this lock."""
    return _NEEDS.get(layer, [str(PROJECT), "--extra", layer])


def compiled(uv: str, arguments: Sequence[str]) -> str:
    """The lock that uv makes of these requirements."""
    options = (
        "--universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet"
    )
    command = [uv, "pip", "compile", *options.split(), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(uv: str) -> None:
    """Write all locks."""
    with TemporaryDirectory() as folder:
        everything = Path(folder) / "everything"
        everything.write_text(compiled(uv, [word for layer in LAYERS for word in needs_of(layer)]))
        whole = {layer: blocks_of(compiled(uv, [*needs_of(layer), "-c", str(everything)])) for layer in LAYERS}
    for layer, before in LAYERS.items():
        there = {line for name in before for line in whole[name]}
        (FOLDER / f"{layer}.lock").write_text(
            "".join(block for line, block in whole[layer].items() if line not in there)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
