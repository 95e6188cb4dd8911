"""The environment of a run, which its figures depend on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["environment"]

PACKAGES = ("uvloop", "crc32c", "cramjam", "pyarrow")
"""The libraries that all rows depend on; the contenders add their own."""


def environment() -> dict[str, Any]:
    """Return the machine, its load before the run, the interpreter and the libraries in use."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": f"{os.cpu_count()} x {_processor()}",
        "load": round(os.getloadavg()[0], 2),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Return the short hash of the current commit, with a plus sign if the working tree has changes."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip() + ("+" if changed.stdout else "")
