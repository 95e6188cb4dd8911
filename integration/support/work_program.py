"""A worker process: `python -m integration.support.work_program BOOTSTRAP TOPIC DEAD SLOT PROTOCOL LOG`.

It prints a line when it begins, handles records until SIGTERM, and writes a line with the number of each record whose
handler has returned. Numbers that 50 divides fail for good, and become letters in transactions.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any

from aioprod import Producer
from aioprod.group import DeadLetters, Member, Retry
from aioprod.types import ConsumedRecord

__all__ = ["POISON"]

POISON = 50
"""Every so many records the handler fails for good."""


async def main(bootstrap: str, topic: str, dead: str, slot: str, protocol: str, log: str) -> None:
    """Work until SIGTERM."""
    logging.getLogger("aioprod").setLevel(logging.ERROR)  # Handlers fail on purpose.
    at_work: set[bytes] = set()
    last: dict[bytes, int] = {}
    lines = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def cook(record: ConsumedRecord) -> None:
        number, key = int(record.value), record.key
        assert key not in at_work, f"two records of {key!r} at once"
        assert last.get(key, -1) < number, f"{number} after {last[key]} of {key!r}"
        at_work.add(key)
        try:
            await asyncio.sleep(0.01)
            if number % POISON == 0:
                raise ValueError(f"{number} fails")
        finally:
            at_work.discard(key)
        last[key] = number
        os.write(lines, b"%d\n" % number)

    options: dict[str, Any] = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        options |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    async with (
        Producer(bootstrap, transactional_id=f"{topic}-{slot}") as producer,
        Member(bootstrap, group_id=topic, topics=[topic], auto_commit_interval_ms=500, **options) as member,
    ):
        ending: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: ending.append(loop.create_task(member.close())))
        print("at work", flush=True)
        retry = Retry(times=1, backoff_s=(0.05, 0.05))
        await member.work(cook, concurrency=50, retry=retry, dead_letters=DeadLetters(dead, producer), drain_s=3.0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
