"""Targets over compiled modules, built with gcc's AddressSanitizer: what is read or written out of bounds is a finding.

Atheris guides by the coverage of interpreted modules, which can't read out of bounds. So this search damages seeds, and
the corpus of earlier searches, at random.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["build", "search"]

FLAGS: Final = "-fsanitize=address -fno-omit-frame-pointer"
INPUT: Final = "input"
"""The file with the input that a target is given: all that is left of it when the sanitizer ends the process."""


def build(kept: Path) -> Path:
    """The folder of a package whose compiled modules are instrumented; what has not changed is not built again."""
    folder = kept / "sanitized"
    command = ["setup.py", "--quiet", "build", f"--build-lib={folder}", f"--build-temp={kept / 'sanitized-objects'}"]
    around = os.environ | {"CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address", "AIOPROD_REQUIRE_EXT": "1"}
    around.pop("AIOPROD_NO_EXT", None)
    subprocess.run([sys.executable, *command], env=around, check=True)
    return folder.resolve()


def environment(folder: Path) -> dict[str, str]:
    """What a process needs to load instrumented modules from a folder."""
    # Without the C++ library at its side the sanitizer stops at the first exception of pyarrow.
    libraries = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    around = os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",  # each object is a block of its own
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONPATH": os.pathsep.join([str(folder), str(Path.cwd())]),
    }
    around.pop("AIOPROD_NO_EXT", None)
    return around


def search(name: str, seconds: int, kept: Path) -> tuple[str, str]:
    """Search one target: how many inputs it was given, and what was found, empty if nothing."""
    folder = build(kept)
    found = kept / "findings" / name
    corpus = kept / "corpus" / name
    for each in (found, corpus):
        each.mkdir(parents=True, exist_ok=True)
    log = kept / f"{name}-sanitized.log"
    given = kept / f"{name}-{INPUT}"
    with log.open("w") as output:
        # -P: the package of the current folder is not the one that is meant.
        ran = subprocess.run(
            [sys.executable, "-P", "-m", "tests.fuzz.damage", name, str(seconds), str(given), str(corpus)],
            env=environment(folder),
            stdout=output,
            stderr=output,
            check=False,
        )
    text = log.read_text(errors="replace")
    executions = (re.findall(r"^(\d+) inputs", text, re.MULTILINE) or ["?"])[-1]
    if ran.returncode == 0:
        return executions, ""
    data = given.read_bytes() if given.exists() else b""
    path = found / hashlib.sha1(data, usedforsecurity=False).hexdigest()
    path.write_bytes(data)
    said = re.search(r"ERROR: AddressSanitizer: \S+|^\w+Error.*", text, re.MULTILINE)
    return executions, f"{path}: {said[0] if said else 'failed'}, see {log}"
