"""What a member pays that reads thousands of partitions: `python -m benchmarks.fetch_turns --partitions 10000`.

The brokers are fakes in another process, which writes a record to some partition all the time. Printed are the CPU time
of the longest turn of the loop while the partitions are taken up and after that, and then CPU time and requested
partitions per response.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import uvloop

from aioprod.calls.session import Session
from aioprod.group.config import MemberConfig
from aioprod.group.fetcher import Fetcher
from aioprod.messages import FetchRequest
from aioprod.reader.fetching import answer_size_max
from aioprod.records import RecordBatchBuilder, parse_batches
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.process_costs import LoopBeat

__all__ = ["main"]

TOPIC = "orders"
PAUSE_S = 0.02
MEASURED_S = 10.0


async def serve(brokers: int, partitions: int) -> None:
    """Run the brokers until the standard input ends; print their addresses."""
    random = Random(1)
    async with FakeCluster(brokers) as cluster:
        topic = cluster.create_topic(TOPIC, partitions)
        print(cluster.bootstrap, flush=True)
        builder = RecordBatchBuilder(bytearray(512))
        builder.append(1_700_000_000_000, None, b"v" * 100)
        builder.seal(0, None)
        data = bytes(builder.wire(0, False))[8:]
        (batch,) = parse_batches(data)
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not ended.done():
            random.choice(topic.partitions).append(batch, data)
            cluster.state.wake_fetches()
            cluster.seen.clear()
            await asyncio.sleep(PAUSE_S)


async def read(bootstrap: str, partitions: int) -> None:
    """Read all partitions, and print what it took."""
    config = MemberConfig.from_options(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    session = Session(config, "member", frame_size_max=answer_size_max(config))
    fetcher = Fetcher(session, config)
    requested: list[int] = []
    build = fetcher._leaders._build

    def counted(node_id: int, positions: object) -> FetchRequest:
        request = build(node_id, positions)  # type: ignore[arg-type]
        assert isinstance(request, FetchRequest)
        requested.append(sum(len(topic.partitions) for topic in request.topics))
        return request

    fetcher._leaders._build = counted
    await session.start()
    try:
        beat = LoopBeat("timer")
        beat.start()
        fetcher.add({TopicPartition(TOPIC, index): 0 for index in range(partitions)})
        for _ in range(10):
            await fetcher.next()
        beat.stop()
        print(f"taking them up: longest turn {1000 * (beat.gap_s or 0.0):.1f} ms")
        responses, asked, cpu_s = fetcher.counts.responses, sum(requested), time.process_time()
        beat = LoopBeat("timer")
        beat.start()
        end = time.monotonic() + MEASURED_S
        while time.monotonic() < end:
            await fetcher.next()
        beat.stop()
        count = fetcher.counts.responses - responses
        cpu_ms, named = 1000 * (time.process_time() - cpu_s) / count, (sum(requested) - asked) / count
        print(f"after that: longest turn {1000 * (beat.gap_s or 0.0):.1f} ms")
        print(f"for each of {count} responses: CPU {cpu_ms:.2f} ms, {named:.1f} requested partitions")
    finally:
        await fetcher.close()
        await session.close()


def main() -> None:
    """Start the brokers in another process, and read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fetch_turns")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.brokers, arguments.partitions))
        return
    command = [sys.executable, "-m", "benchmarks.fetch_turns", "--serve"]
    command += ["--partitions", str(arguments.partitions), "--brokers", str(arguments.brokers)]
    with subprocess.Popen(
        command, cwd=Path(__file__).parent.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdin is not None
        bootstrap = serving.stdout.readline().strip()
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(read(bootstrap, arguments.partitions))
        finally:
            serving.stdin.close()


if __name__ == "__main__":
    main()
