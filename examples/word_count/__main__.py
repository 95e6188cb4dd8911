"""`make example-word-count`: two members count the words of Python's standard library, and are killed meanwhile.

    python -m examples.word_count [--lines 20000] [--kills 3]

Starts a Kafka broker, writes source lines to it, and compares the counts with those of a plain `Counter`.
Exit status: 0 when every count is right, 1 when one is not, 2 when it could not run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final

from aioprod import Producer
from aioprod.admin import Admin
from aioprod.errors import AioprodError
from aioprod.testing import KafkaCluster
from examples.demo.arguments import at_least
from examples.demo.screen import Screen
from examples.demo.source import standard_library
from examples.word_count.counter import COUNTS, GROUP, LINES
from examples.word_count.processes import CounterProcess
from examples.word_count.state import CountsTopic, words_of

PARTITIONS: Final = 4
NAMES: Final = ("one", "two")
COUNTED_S: Final = 180.0
SHOWN: Final = 5


def main(arguments: Sequence[str], screen: Screen) -> int:
    """Run the example and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.word_count")
    parser.add_argument("--lines", type=at_least(1), default=20_000, help="how many lines are counted (20000)")
    parser.add_argument("--kills", type=at_least(0), default=3, help="how often a member is killed meanwhile (3)")
    given = parser.parse_args(arguments)
    try:
        return asyncio.run(run(given.lines, given.kills, screen))
    except (AioprodError, RuntimeError, TimeoutError) as error:
        screen.say(f"The example could not finish: {error}")
        return 2
    except KeyboardInterrupt:
        screen.say("Stopped.")
        return 2


async def run(lines: int, kills: int, screen: Screen) -> int:
    """Start a broker, and run the example on it."""
    with screen.waiting("Starting a real Kafka broker; what it needs is fetched once ...") as show:
        cluster = await KafkaCluster.start(backend="local", progress=show)
    async with cluster:
        screen.say(f"Kafka {cluster.version} serves at {cluster.bootstrap_servers}.")
        return await count_lines(cluster.bootstrap_servers, list(source_lines(lines)), kills, screen)


def source_lines(count: int) -> Iterator[bytes]:
    """So many lines of Python's standard library."""
    lines = (line for source in standard_library() for line in source.path.read_bytes().splitlines())
    return itertools.islice(lines, count)


async def count_lines(servers: str, lines: Sequence[bytes], kills: int, screen: Screen) -> int:
    """Write the lines while members that are killed count them, and compare; returns the exit status."""
    start = time.perf_counter()
    async with Admin(servers) as admin:
        await admin.create_topic(LINES, partitions=PARTITIONS)
        await admin.create_topic(COUNTS, partitions=PARTITIONS, config={"cleanup.policy": "compact"})
    async with AsyncExitStack() as stack:
        members = [stack.enter_context(CounterProcess(servers, name)) for name in NAMES]
        producer = await stack.enter_async_context(Producer(servers))
        topic = await stack.enter_async_context(CountsTopic(servers, COUNTS))
        screen.say(f"{len(NAMES)} members count the words of {len(lines):,} lines; one is killed {kills} times.")
        for part in range(kills + 1):
            share = lines[len(lines) * part // (kills + 1) : len(lines) * (part + 1) // (kills + 1)]
            (await producer.send_many(LINES, share)).raise_for_failures()
            # Each part is counted to a half at least before a member is killed, and so each life has done some work.
            await until_counted(servers, members, len(lines) * part // (kills + 1) + len(share) // 2)
            if part < kills:
                members[part % len(members)].restart()
        await until_counted(servers, members, len(lines))
        found = await topic.totals()
    expected = Counter(word for line in lines for word in words_of(line))
    wrong = sorted(word for word in expected.keys() | found.keys() if expected[word] != found[word])
    rows = [
        ("lines", f"{len(lines):,}"),
        ("words", f"{expected.total():,}"),
        ("different words", f"{len(expected):,}"),
        ("members killed", f"{kills}"),
        ("in all", f"{time.perf_counter() - start:.1f} s"),
        *((f"'{word}'", f"{count:,}") for word, count in found.most_common(SHOWN)),
    ]
    screen.table("word count", rows)
    for word in wrong[:20]:
        screen.say(f"DIFFERS {word!r} is there {expected[word]:,} times, and was counted {found[word]:,} times.")
    if not wrong:
        screen.say("Every word was counted as often as it is there.")
    return 1 if wrong else 0


async def until_counted(servers: str, members: Sequence[CounterProcess], lines: int) -> None:
    """Wait until the group has committed so many lines; raises RuntimeError if a member ends, TimeoutError."""
    async with asyncio.timeout(COUNTED_S), Admin(servers) as admin:
        # Offsets count lines, as the lines were not written in transactions, whose ends have offsets, too.
        while sum(place.offset for place in (await admin.group_offsets(GROUP)).values()) < lines:
            for member in members:
                member.check()
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Screen()))
