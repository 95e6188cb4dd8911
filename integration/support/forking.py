"""A program that forks with a running producer, and prints the results of parent and child as JSON.

Run with the bootstrap servers and a topic as its arguments. The child tries every call, then creates its own producer;
the parent continues as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from aioprod import Producer
from aioprod.errors import AioprodError


def error_of(call: Callable[[], Any]) -> str:
    """The type and text of what a call raises."""
    try:
        call()
    except AioprodError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


async def send_from_child(servers: str, topic: str) -> None:
    """Send with a producer that was created after the fork."""
    async with Producer(servers) as producer:
        await producer.send(topic, b"child")


def child(producer: Producer, servers: str, topic: str) -> dict[str, str]:
    """Try every call that must fail in a child, then those that work."""
    errors = {
        "submit": error_of(lambda: producer.submit(topic, b"lost")),
        "send_nowait": error_of(lambda: producer.send_nowait(topic, b"lost")),
        "send": error_of(lambda: asyncio.run(producer.send(topic, b"lost"))),
        "send_many": error_of(lambda: asyncio.run(producer.send_many(topic, [b"lost"]))),
        "flush": error_of(lambda: asyncio.run(producer.flush())),
        "drain": error_of(lambda: asyncio.run(producer.drain())),
        "partitions_for": error_of(lambda: asyncio.run(producer.partitions_for(topic))),
    }
    asyncio.run(producer.close())
    asyncio.run(send_from_child(servers, topic))
    return errors


async def main(servers: str, topic: str) -> None:
    async with Producer(servers) as producer:
        await producer.send(topic, b"before")
        held = producer.submit(topic, b"held")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writing, json.dumps(child(producer, servers, topic)).encode())
            os._exit(0)
        os.close(writing)
        with open(reading) as pipe:
            errors = json.load(pipe)
        _, status = os.waitpid(pid, 0)
        await producer.send(topic, b"after")
        report = await producer.close()
        print(json.dumps({"errors": errors, "status": status, "held": held.done(), "delivered": report.delivered}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
