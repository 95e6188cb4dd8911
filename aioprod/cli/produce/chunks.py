"""The bytes of files and pipes, read ahead in a thread, whatever kind they are of."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

from aioprod.errors import UsageError

__all__ = ["STDIN", "check_readable", "read_blocks", "read_chunks"]

STDIN: Final = "-"
_CHUNK: Final = 1 << 19
_AHEAD: Final = 8
"""How many chunks may wait to be taken."""
_LINE_MAX: Final = 1 << 30


def check_readable(path: str) -> None:
    """Raise UsageError unless the file can be opened."""
    if path == STDIN:
        return
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise UsageError(f"{path!r} can't be read: {error.strerror}.") from error


async def read_chunks(path: str) -> AsyncIterator[bytes]:
    """The content in chunks of up to 512 KiB, as they come; raises UsageError where reading fails.

    The thread is a daemon: one that waits for a pipe does not keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD)
    is_over = threading.Event()
    descriptor = os.dup(0) if path == STDIN else os.open(path, os.O_RDONLY)
    _widen(descriptor)

    def read() -> None:
        try:
            while not is_over.is_set():
                room.acquire()
                data = os.read(descriptor, _CHUNK)
                loop.call_soon_threadsafe(queue.put_nowait, data)
                if not data:
                    return
        except OSError as error:
            loop.call_soon_threadsafe(queue.put_nowait, error)
        except RuntimeError:  # The loop was closed meanwhile.
            return
        finally:
            os.close(descriptor)

    threading.Thread(target=read, name="aioprod input", daemon=True).start()
    try:
        while data := await queue.get():
            if isinstance(data, OSError):
                raise UsageError(f"{path!r} can't be read any further: {data.strerror}.") from data
            room.release()
            yield data
    finally:
        is_over.set()
        room.release()


def _widen(descriptor: int) -> None:
    """Have a pipe hold a whole chunk: else it comes 64 KiB at a time, and each time costs two changes of threads."""
    with contextlib.suppress(ImportError, OSError):  # Not Linux; no pipe; more than this user may have.
        from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl

        if fcntl(descriptor, F_GETPIPE_SZ) < _CHUNK:
            fcntl(descriptor, F_SETPIPE_SZ, _CHUNK)


async def read_blocks(path: str) -> AsyncIterator[bytes]:
    """The content in blocks of whole lines, without the end of the last one, which may lack it in the file.

    Raises UsageError where reading fails.
    """
    parts: list[bytes] = []
    size = 0
    async for data in read_chunks(path):
        end = data.rfind(b"\n")
        if end < 0:
            size += len(data)
            if size > _LINE_MAX:
                raise UsageError(f"{path!r} has a line of more than 1 GiB.")
            parts.append(data)
            continue
        yield b"".join([*parts, memoryview(data)[:end]])
        parts, size = [data[end + 1 :]], 0
    if rest := b"".join(parts):
        yield rest
