"""`make demo`: real input into a real Kafka broker, read back by another client and compared, record for record.

    python -m examples.demo [FILE]

Without FILE, each source line of Python's standard library becomes a record: its key is the path of the module, its
value the line. With FILE, each line of that file does. Exit status: 0 when every record came back as it was sent,
1 when one did not, 2 when the demo could not run.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import confluent_kafka

from aioprod import Producer
from aioprod.errors import AioprodError
from aioprod.testing import KafkaCluster
from examples.demo.compare import Digests, compare
from examples.demo.reading import read_back
from examples.demo.screen import Screen
from examples.demo.sending import Sent, send
from examples.demo.source import Source, count_lines, one_file, standard_library

TOPIC = "demo"
PARTITIONS = 6
DIFFERENCES_SHOWN = 20
NEXT = """\
Where to look next:
  README.md         the ten lines that you need, and what each call promises
  examples/         a web service, fire and forget, bulk, your own partitioner, tests with a real broker
  docs/producer.md  back-pressure, outcomes, cancellation, ordering
  make test         the whole test suite"""


def main(arguments: Sequence[str], screen: Screen) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="Send lines to Kafka and check them.")
    parser.add_argument("file", nargs="?", type=Path, help="send the lines of this file, not the standard library's")
    file: Path | None = parser.parse_args(arguments).file
    try:
        sources = standard_library() if file is None else one_file(file)
    except OSError as error:
        screen.say(f"FILE={file} can't be read: {error.strerror}.")
        return 2
    what = f"of Python {platform.python_version()}'s standard library" if file is None else f"of {file}"
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(demo(sources, what, screen))
    except (AioprodError, confluent_kafka.KafkaException, TimeoutError) as error:
        screen.say(f"The demo could not finish: {error}")
        return 2
    except KeyboardInterrupt:
        screen.say("Stopped.")
        return 2


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def demo(sources: list[Source], what: str, screen: Screen) -> int:
    """Start a broker, send, read back, compare, and report; returns the exit status."""
    start = time.perf_counter()
    with screen.waiting("Starting a real Kafka broker; what it needs is fetched once ...") as show:
        cluster = await KafkaCluster.start(backend="local", progress=show)
    async with cluster:
        servers = cluster.bootstrap_servers
        await cluster.create_topic(TOPIC, partitions=PARTITIONS)
        screen.say(f"Kafka {cluster.version} serves at {servers}, after {time.perf_counter() - start:.1f} s.")
        keys = f"{len(sources):,} files" if len(sources) > 1 else "one key"
        screen.say(f"Sending every line {what}: {keys}, {PARTITIONS} partitions, acks=all.")
        sent = await send_all(servers, TOPIC, sources, screen)
        screen.say(f"Reading back with confluent-kafka {confluent_kafka.version()}, another client altogether.")
        reading = time.perf_counter()
        read = await read_all(servers, TOPIC, sent.digests.records, screen)
        reading = time.perf_counter() - reading
    return report(sent, read, reading, time.perf_counter() - start, screen)


async def send_all(servers: str, topic: str, sources: list[Source], screen: Screen) -> Sent:
    """Send all lines with a producer that has its default settings."""
    sent = Sent()
    async with Producer(servers, on_error=lambda error, _: sent.errors.append(error)) as producer:
        with screen.stage("sent", count_lines(sources)) as stage:
            await send(producer, topic, sources, sent, stage.show)
    return sent


async def read_all(servers: str, topic: str, total: int, screen: Screen) -> Digests:
    """Read everything back with confluent-kafka, which blocks, in a thread."""
    with screen.stage("read", total) as stage:
        return await asyncio.to_thread(read_back, servers, topic, PARTITIONS, stage.show)


def report(sent: Sent, read: Digests, reading_s: float, total_s: float, screen: Screen) -> int:
    """Print totals, differences and what to look at next; returns the exit status."""
    differences = compare(sent.digests, read)
    rows = [
        ("records sent", f"{sent.digests.records:,}"),
        ("bytes of values", f"{sent.value_bytes:,}"),
        ("keys", f"{len(sent.digests):,}"),
        ("acknowledged", f"{sent.acknowledged:,}"),
        ("acknowledged per second", f"{sent.rate:,.0f}"),
        ("send to acknowledgement, p50", f"{sent.latency.percentile(50):.1f} ms"),
        ("send to acknowledgement, p99", f"{sent.latency.percentile(99):.1f} ms"),
        ("records read back", f"{read.records:,}"),
        ("sending / reading / in all", f"{sent.seconds:.1f} / {reading_s:.1f} / {total_s:.1f} s"),
        ("keys that differ", f"{len(differences):,}"),
    ]
    screen.table("aioprod demo", rows)
    for error in sent.errors[:DIFFERENCES_SHOWN]:
        screen.say(f"NOT DELIVERED {error}")
    for difference in differences[:DIFFERENCES_SHOWN]:
        screen.say(f"DIFFERS {difference}")
    if differences or sent.errors:
        return 1
    screen.say("Every record came back once, in the order of its key, and with the same bytes (SHA-256 per key).")
    screen.say(NEXT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Screen()))
