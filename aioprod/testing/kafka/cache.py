"""The cache of what is fetched or built once per user: its folder, its locks, and running the programs that fill it."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aioprod.testing.errors import KafkaUnavailableError, ToolError

__all__ = ["Progress", "cache_folder", "log_progress", "once", "run_tool"]

Progress = Callable[[str], None]
"""Called with one short line of text per step of something that takes long."""

_LINES_KEPT: Final = 30


def log_progress(line: str) -> None:
    """The default `Progress`: the log."""
    logging.getLogger("aioprod.testing").info(line)


def cache_folder() -> Path:
    """The folder of jars and runtimes: `$AIOPROD_CACHE`, else `aioprod` in `$XDG_CACHE_HOME` or `~/.cache`.

    Where the latter is not there and can't be made, it is `aioprod-<user id>` in the folder of temporary files. Raises
    KafkaUnavailableError when another user could write that one.
    """
    if own := os.environ.get("AIOPROD_CACHE"):
        return Path(own).absolute()
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "aioprod"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        return _temporary_cache()
    return folder


def _temporary_cache() -> Path:
    folder = Path(tempfile.gettempdir()).absolute() / f"aioprod-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    # Any user may make a folder of this name: programs that are run must not come from there.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise KafkaUnavailableError(
            f"The cache folder can't be {folder}: it is not this user's alone, and the home can't be written.",
            hint="Set AIOPROD_CACHE to a folder of yours.",
        )
    return folder


def once(target: Path, build: Callable[[Path], None], progress: Progress) -> Path:
    """Return the folder `target`, filled by `build(folder)` if it is not there yet.

    `build` gets an empty folder beside `target` that is renamed when it is complete, so `target` is never partial; what
    an interrupted `build` left is removed. Of several processes one builds and the others wait. Errors of `build`
    propagate.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_name(target.name + ".lock"), progress):
        if target.is_dir():
            return target
        part = target.with_name(target.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            build(part)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that prepares {path.stem}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_tool(command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return the last lines of what it printed.

    `environment` is added to this process's own. Raises `ToolError` when the program cannot be run or its exit status
    is not 0.
    """
    try:
        ended = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except OSError as error:
        raise ToolError(f"{command[0]} could not be run: {error}.") from error
    text = "\n".join(line.rstrip() for line in ended.stdout.splitlines()[-_LINES_KEPT:])
    if ended.returncode != 0:
        raise ToolError(f"{Path(command[0]).name} ended with status {ended.returncode}. Its last lines:\n{text}")
    return text
