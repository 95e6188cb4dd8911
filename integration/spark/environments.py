"""Virtual environments with other versions of PySpark, created once per user in the cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from aioprod.testing.kafka.cache import cache_folder, log_progress, once, run_tool

__all__ = ["NEEDED", "ROOT", "python_with", "python_with_connect", "run_program"]

ROOT = Path(__file__).parents[2]
NEEDED = ("crc32c>=2.7", "cramjam>=2.9", "mmh3>=5")
"""What aioprod itself needs."""

_SPARKS = ("pandas>=2.2,<3", "pyarrow>=18")


def python_with(name: str, *packages: str) -> Path:
    """The interpreter of an environment with these packages, and what Spark and aioprod need; aioprod is not in it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_folder() / f"environment-{name}-python-{version}"

    def build(part: Path) -> None:
        # Nothing in it may know its path, which changes when it is complete: its own pip would.
        venv.create(part, with_pip=False, symlinks=True)
        (part / "tmp").mkdir()
        command = [sys.executable, "-m", "pip", f"--python={part / 'bin' / 'python'}", "install", "--quiet"]
        temporary = {"TMPDIR": str(part / "tmp")}
        run_tool([*command, "--no-cache-dir", *packages, *_SPARKS, *NEEDED], environment=temporary)

    return once(folder, build, log_progress) / "bin" / "python"


def python_with_connect() -> Path:
    """That of the newest PySpark, with what Spark Connect needs besides."""
    return python_with("connect-4.3", "pyspark[connect]==4.3.*")


def run_program(command: Sequence[str | Path], path: Sequence[Path] = (ROOT,)) -> str:
    """What a program printed; fails with all it said unless it ends with status 0.

    `path` is where it finds modules beside those of its environment. It hears nothing of this process's Spark.
    """
    cleared = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    environment = cleared | {"PYTHONPATH": os.pathsep.join(map(str, path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(list(command), env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr[-20_000:]}"
    return done.stdout
