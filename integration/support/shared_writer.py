"""A worker of a shared transaction in its own process: sends the values that it gets, and prints their outcomes.

    python -m integration.support.shared_writer SERVERS TOPIC PARTITION

The first line of its input is the pickled handle in hex; each further one is a value to be sent, and is answered with
"stored" or the name of the error. The process ends with the input.
"""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from aioprod import TransactionHandle
from aioprod.errors import AioprodError, DeliveryError, ErrorCode, NotSentError, RejectedError, UnknownOutcomeError

__all__ = ["Writer", "shared_writer"]


class Writer:
    """The test's side of the process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def write_line(self, line: str) -> None:
        """Send a line to the process."""
        stream: IO[str] | None = self._process.stdin
        assert stream is not None
        stream.write(line + "\n")
        stream.flush()

    async def read_line(self) -> str:
        """The next line that the process prints."""
        stream: IO[str] | None = self._process.stdout
        assert stream is not None
        line = await asyncio.to_thread(stream.readline)
        assert line, "the writer has ended"
        return line.strip()

    async def write(self, value: str) -> str:
        """Let the process send a value; returns the outcome."""
        self.write_line(value)
        return await self.read_line()


@contextmanager
def shared_writer(servers: str, topic: str, partition: int, handle: TransactionHandle) -> Iterator[Writer]:
    """Start a writer."""
    command = [sys.executable, "-m", __name__, servers, topic, str(partition)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        writer = Writer(process)
        writer.write_line(pickle.dumps(handle).hex())
        try:
            yield writer
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _named(error: AioprodError) -> str:
    """The class of an error; for a record's error its base class, with the broker's code."""
    if not isinstance(error, DeliveryError):
        return type(error).__name__
    family = next(kind for kind in (NotSentError, UnknownOutcomeError, RejectedError) if isinstance(error, kind))
    return f"{family.__name__} {error.code.name}" if isinstance(error.code, ErrorCode) else family.__name__


async def main(servers: str, topic: str, partition: str) -> None:
    handle: TransactionHandle = pickle.loads(bytes.fromhex(sys.stdin.readline()))
    async with handle.producer(servers) as producer:
        while value := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                await producer.send(topic, value.encode(), partition=int(partition))
            except AioprodError as error:
                print(_named(error), flush=True)
            else:
                print("stored", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
