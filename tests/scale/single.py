"""One producer in a cluster of many brokers and partitions: memory, CPU time, bytes, the longest turn of the loop."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.process_costs import LoopBeat, cpu_s, resident_mb

__all__ = ["SIZES", "Measured", "Size", "measure"]

ROOT: Final = Path(__file__).parents[2]
PARTITIONS_OF_A_TOPIC: Final = 1000


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster: `partitions` in topics of 1,000 each."""

    brokers: int
    partitions: int

    @property
    def topics(self) -> int:
        """How many topics there are."""
        return max(1, self.partitions // PARTITIONS_OF_A_TOPIC)

    @property
    def of_a_topic(self) -> int:
        """The partitions of each topic."""
        return self.partitions // self.topics


SIZES: Final = (
    Size(3, 1_000),
    Size(30, 10_000),
    Size(100, 50_000),
    Size(300, 100_000),
    Size(1_000, 200_000),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What one producer took that wrote one record to each partition, and then waited.

    Memory is resident, above that of the started process. `metadata_*` are of all Metadata requests. `turn_ms` is the
    CPU time of the longest turn of the loop, `tuned_turn_ms` the same in a process that has called `aioprod.tune()`.
    """

    brokers: int
    partitions: int
    memory_mb: float
    cpu_s: float
    turn_ms: float
    tuned_turn_ms: float
    metadata_requests: int
    metadata_kb: float
    connections: int


def measure(size: Size) -> Measured:
    """Run a stub and a producer, each in a process of its own; once more for a tuned process."""
    produced, counted = _run(size, tuned=False)
    tuned, _ = _run(size, tuned=True)
    return Measured(
        brokers=size.brokers,
        partitions=size.partitions,
        metadata_requests=counted["requests"]["Metadata"],
        metadata_kb=round(counted["sent"]["Metadata"] / 1000, 1),
        connections=counted["connections"],
        tuned_turn_ms=tuned["turn_ms"],
        **produced,
    )


def _run(size: Size, *, tuned: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the producer measured, and what the stub received."""
    stub = subprocess.Popen(
        [sys.executable, "-m", "tests.scale.stub", str(size.brokers), str(size.topics), str(size.of_a_topic)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert stub.stdout is not None
    try:
        address = stub.stdout.readline().strip()
        arguments = json.dumps([address, size.topics, size.of_a_topic, tuned])
        command = [sys.executable, "-m", "tests.scale.single", arguments]
        child = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        received, _ = stub.communicate("")
    return json.loads(child.stdout), json.loads(received)


# --- the child


async def _produce(address: str, topics: int, partitions: int, tuned: bool) -> dict[str, Any]:
    from aioprod import Producer, tune
    from tests.scale.stub import topic_name

    if tuned:
        tune()
    gc.collect()
    memory_mb, before_s = resident_mb(), cpu_s()
    delivered = 0

    def on_delivery(metadata: object, error: BaseException | None) -> None:
        nonlocal delivered
        if error is not None:
            raise error
        delivered += 1

    names = [topic_name(index) for index in range(topics)]
    async with Producer(address, batch_size=1024, buffer_memory=512 * 2**20) as producer:
        beat = LoopBeat("timer")
        beat.start()
        for name in names:
            await producer.partitions_for(name)
        for name in names:
            for partition in range(partitions):
                producer.send_nowait(name, b"v" * 100, partition=partition, on_delivery=on_delivery)
            await producer.drain()
            await asyncio.sleep(0)
        await producer.flush()
        beat.stop()
        assert delivered == topics * partitions
        used_s = cpu_s() - before_s
        gc.collect()
        held = resident_mb() - memory_mb
    return {"memory_mb": round(held, 1), "cpu_s": round(used_s, 2), "turn_ms": round((beat.gap_s or 0.0) * 1000, 1)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_produce(*json.loads(sys.argv[1])))))
