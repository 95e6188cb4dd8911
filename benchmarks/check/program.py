"""The program that callgrind counts: it repeats one hot call. `program.py ROW ROUNDS RECORDS BOOTSTRAP TOPIC SWITCH`.

It runs with the aioprod of the tree that is first on the path, so it uses no other module of this repository, and only
what all commits of aioprod have. Only instructions between the two calls of the switch are counted.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from random import Random
from types import ModuleType
from typing import Any

import uvloop

import aioprod
from aioprod import Producer
from aioprod.cli.__main__ import main as aioprod_main
from aioprod.group import Member
from aioprod.producer.environment import Environment
from aioprod.reader import Reader

VALUE = b"x" * 100
KEYS = [b"key-%d" % number for number in range(1000)]
PER_TURN = 1000
"""The number of calls of `send_nowait` between two loop iterations."""
ROWS = 10_000
"""The rows of one Arrow batch."""

OPEN_TURN_S = 0.25
"""Replaces the time slice of a few milliseconds: under callgrind everything takes 50 times as long."""
SEED = 7
FLUSHED: dict[str, Any] = {"linger_ms": 10_000, "adaptive_linger": False}
"""Batches are sent when they are full, as under load; otherwise their size depends on the broker's timing."""
AWAITED: dict[str, Any] = {"linger_ms": 300, "adaptive_linger": False}
"""The same for calls that also wait for the last batch."""

Round = Callable[[], Awaitable[int]]
"""Sends or reads the records of one round, and returns the number of those that were delivered or read."""
Program = Callable[[str, str, int], AbstractAsyncContextManager[Round]]
"""Makes what is measured for a broker's address, a topic and the records of a round, and ends it."""


def nowait(producer: Producer, topic: str, records: int, *, keyed: bool = False) -> Round:
    delivered = 0

    def on_delivery(metadata: object, error: object) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1

    async def send() -> int:
        nonlocal delivered
        delivered = 0
        call, keys = producer.send_nowait, KEYS
        for number in range(records):
            if keyed:
                call(topic, VALUE, key=keys[number % 1000], on_delivery=on_delivery)
            else:
                call(topic, VALUE, on_delivery=on_delivery)
            if number % PER_TURN == PER_TURN - 1:
                await asyncio.sleep(0)
        await producer.flush()
        return delivered

    return send


def keyed(producer: Producer, topic: str, records: int) -> Round:
    return nowait(producer, topic, records, keyed=True)


def submit(producer: Producer, topic: str, records: int) -> Round:
    async def send() -> int:
        call = producer.submit
        futures = [call(topic, VALUE) for _ in range(records)]
        delivered = 0
        for future in futures:
            await future
            delivered += 1
        return delivered

    return send


def send_many(producer: Producer, topic: str, records: int, *, keyed: bool = False) -> Round:
    values = [VALUE] * records
    keys = [KEYS[number % 1000] for number in range(records)] if keyed else None

    async def send() -> int:
        result = await producer.send_many(topic, values, keys=keys)
        return result.count - len(result.failures)

    return send


def keyed_many(producer: Producer, topic: str, records: int) -> Round:
    return send_many(producer, topic, records, keyed=True)


def send_arrow(producer: Producer, topic: str, records: int, *, keyed: bool = False) -> Round:
    import pyarrow

    columns = {"value": pyarrow.array([VALUE] * ROWS, pyarrow.binary())}
    if keyed:
        columns["key"] = pyarrow.array([KEYS[number % 1000] for number in range(ROWS)], pyarrow.binary())
    batch: Any = pyarrow.record_batch(columns)

    async def send() -> int:
        sent = await asyncio.gather(*[producer.send_arrow(batch, topic=topic) for _ in range(0, records, ROWS)])
        return sum(result.count - len(result.failures) for result in sent)

    return send


def keyed_arrow(producer: Producer, topic: str, records: int) -> Round:
    return send_arrow(producer, topic, records, keyed=True)


def idle(producer: Producer, topic: str, records: int) -> Round:
    async def send() -> int:
        for _ in range(records):
            await producer.send(topic, VALUE)
        return records

    return send


async def count(items: AsyncIterator[Any], records: int, size: Callable[[Any], int]) -> int:
    found = 0
    async for item in items:
        found += size(item)
        if found >= records:
            break
    return min(found, records)  # a batch may have more


@asynccontextmanager
async def read(address: str, topic: str, records: int) -> AsyncIterator[Round]:
    async with Reader(address) as reader:

        async def call() -> int:
            async with aclosing(reader.read(topic)) as found:
                return await count(found, records, lambda _: 1)

        yield call


@asynccontextmanager
async def read_arrow(address: str, topic: str, records: int) -> AsyncIterator[Round]:
    async with Reader(address) as reader:

        async def call() -> int:
            async with aclosing(reader.read_arrow(topic)) as batches:
                return await count(batches, records, lambda batch: int(batch.num_rows))

        yield call


@asynccontextmanager
async def member(address: str, topic: str, records: int, *, in_lists: bool = False) -> AsyncIterator[Round]:
    async with Member(address, group_id=f"check-{os.getpid()}", topics=[topic], auto_offset_reset="earliest") as reader:

        async def call() -> int:
            for tp in reader.assignment:
                reader.seek(tp, 0)
            if in_lists:
                return await count(reader.batches(PER_TURN, max_wait_ms=500), records, len)
            return await count(reader, records, lambda _: 1)

        yield call


def lists(address: str, topic: str, records: int) -> AbstractAsyncContextManager[Round]:
    return member(address, topic, records, in_lists=True)


def _sending(call: Callable[[Producer, str, int], Round], linger: dict[str, Any]) -> Program:
    @asynccontextmanager
    async def program(address: str, topic: str, records: int) -> AsyncIterator[Round]:
        options: dict[str, Any] = {"acks": "all", "batch_size": 128 * 1024, "buffer_memory": 64 * 2**20} | linger
        async with Producer(address, enable_idempotence=False, **options) as producer:
            yield call(producer, topic, records)

    return program


PROGRAMS: dict[str, Program] = {
    "nowait": _sending(nowait, FLUSHED),
    "keyed": _sending(keyed, FLUSHED),
    "submit": _sending(submit, {"linger_ms": 5}),
    "send_many": _sending(send_many, AWAITED),
    "send_arrow": _sending(send_arrow, AWAITED),
    "keyed_many": _sending(keyed_many, AWAITED),
    "keyed_arrow": _sending(keyed_arrow, AWAITED),
    "idle": _sending(idle, {"linger_ms": 5}),
    "read": read,
    "read_arrow": read_arrow,
    "member": member,
    "lists": lists,
}


def _sliced_modules() -> list[ModuleType]:
    """Return the modules that limit their work per loop iteration."""
    return [import_module(f"aioprod.producer.{name}") for name in ("completions", "sender")]


def _seed() -> None:
    """Seed the sticky partitioner: two batches in a row for the same partition take two requests."""
    # A base commit may have the calls under their former name.
    calls = "producer_calls" if find_spec("aioprod.producer.producer_calls") else "producer"
    vars(import_module(f"aioprod.producer.{calls}"))["Environment"] = lambda: Environment(random=Random(SEED))


async def main(row: str, rounds: int, records: int, bootstrap_servers: str, topic: str, switch: ctypes.CDLL) -> None:
    """Run a warm-up round, then the counted rounds; raises AssertionError unless each record was delivered."""
    assert aioprod.__file__.startswith(sys.path[0]), f"{aioprod.__file__} is not the one that is meant."
    assert aioprod.COMPILED, f"The modules of {aioprod.__file__} are not compiled."
    for module in _sliced_modules():
        vars(module)["TURN_S"] = OPEN_TURN_S
    for name in ("group.fetcher", "reader.reader"):
        vars(import_module(f"aioprod.{name}"))["SLICE_S"] = OPEN_TURN_S
    _seed()
    async with PROGRAMS[row](bootstrap_servers, topic, records) as call:
        assert await call() == records
        for _ in range(rounds):
            gc.collect()
            switch.start()
            done = await call()
            switch.stop()
            assert done == records, f"{done} of {records} records were delivered or read."


def produce(rounds: int, records: int, address: str, topic: str, switch: ctypes.CDLL) -> None:
    """The same for the command at the end of a pipe, which makes a loop of its own."""
    arguments = ["produce", topic, "-b", address, "-X", "enable.idempotence=false"]
    with tempfile.NamedTemporaryFile() as lines:
        lines.write((VALUE + b"\n") * records)
        lines.flush()
        for number in range(rounds + 1):
            with subprocess.Popen(["cat", lines.name], stdout=subprocess.PIPE) as cat:
                assert cat.stdout is not None
                os.dup2(cat.stdout.fileno(), 0)
                if number:
                    switch.start()
                status = aioprod_main(arguments)
                switch.stop()
                assert status == 0


def run(row: str, rounds: int, records: int, address: str, topic: str, switch: ctypes.CDLL) -> None:
    """Measure a row."""
    if row == "produce":
        produce(rounds, records, address, topic, switch)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(row, rounds, records, address, topic, switch))


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], ctypes.CDLL(sys.argv[6]))
