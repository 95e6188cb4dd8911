"""`aioprod fake`: fake brokers for programs in any language, without Docker and Java."""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from aioprod.cli.arguments import count_of
from aioprod.cli.running import run_command
from aioprod.cluster.names import topic_name_error
from aioprod.console.frame import Parser
from aioprod.errors import UsageError
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.log import FakePartition

__all__ = ["OBJECTS", "main", "make_parser", "new_cluster", "share_of", "trim", "trim_all"]

_PORT: Final = 9092
_KEEP_MB: Final = 64
_KEEP_TOTAL_MB: Final = 512
_EACH_S: Final = 1.0
_SESSIONS_MS: Final = (6_000, 1_800_000)
"""Kafka's range of `session.timeout.ms` in classic groups: one that brokers reject is not to pass here."""
OBJECTS: Final = 800
"""Bytes of memory that a batch takes beside its data, which may be less than a tenth of that."""

_EXAMPLES: Final = (
    ("aioprod fake --topic orders:6", "one broker at localhost:9092, and a topic of six partitions"),
    ("aioprod fake --port 19092 --brokers 3 --no-auto-create --topic orders --topic meals:2", "three brokers"),
    ("aioprod fake --port 0 --json", "at a free port, which is in the JSON document"),
)


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C or SIGTERM, which is status 130; 1 where a port can't be listened at."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    if given.port and given.port + given.brokers > 65_536:
        parser.error(f"--port {given.port}: {given.brokers} brokers need ports up to {given.port + given.brokers - 1}")
    names = [name for name, _ in given.topic]
    if twice := next((name for name in names if names.count(name) > 1), None):
        parser.error(f"--topic {twice} is given twice")
    return run_command(_serve(given))


async def _serve(given: Namespace) -> int:
    asyncio.get_running_loop().set_exception_handler(_Complaints().handle)
    async with AsyncExitStack() as stack:
        cluster = new_cluster(given)
        try:
            await stack.enter_async_context(cluster)
        except OSError as error:
            raise _port_error(given.port, error) from error
        for name, partitions in given.topic:
            cluster.create_topic(name, partitions)
        _greet(cluster, given)
        try:
            while True:
                await asyncio.sleep(_EACH_S)
                _complain(cluster)
                trim_all(cluster, given.keep * 2**20, given.keep_total * 2**20)
        finally:
            _complain(cluster)


def new_cluster(given: Namespace) -> FakeCluster:
    """The cluster, with Kafka's limits where those of tests would let a mistake pass."""
    cluster = FakeCluster(
        given.brokers, port=given.port, auto_create_topics_enable=not given.no_auto_create, keeps_requests=False
    )
    cluster.state.default_partitions = given.partitions
    cluster.state.groups.settings.session_timeouts_ms = _SESSIONS_MS
    return cluster


class _Complaints:
    """What goes wrong outside of requests, such as too many connections for the limit of open files: each kind once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The event loop's exception handler."""
        said = str(context.get("exception") or context["message"])
        if said not in self._said:
            self._said.add(said)
            sys.stderr.write(f"A client could not be served: {said}. This is said once.\n")


def _port_error(port: int, error: OSError) -> UsageError:
    reason = "another program uses it" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return UsageError(
        f"Port {port} of 127.0.0.1, or one of those after it, can't be listened at: {reason}.",
        hint="Give another one by --port, or --port 0 for a free one.",
    )


def _greet(cluster: FakeCluster, given: Namespace) -> None:
    topics = {name: len(topic.partitions) for name, topic in cluster.topics.items()}
    if given.json:
        sys.stdout.write(f"{json.dumps({'bootstrap_servers': cluster.bootstrap, 'topics': topics})}\n")
    else:
        named = ", ".join(f"{name} ({count})" for name, count in topics.items()) or "none yet"
        sys.stdout.write(
            f"Fake Kafka at {cluster.bootstrap}, for this machine only. Topics: {named}.\n"
            "Records are kept in memory, and are gone when it ends: by Ctrl-C.\n"
        )
    sys.stdout.flush()


def _complain(cluster: FakeCluster) -> None:
    """Say which requests could not be handled; their connections have been closed."""
    for error in cluster.errors:
        said = str(error) or type(error).__name__
        sys.stderr.write(f"A client was disconnected, as its request could not be handled: {said}\n")
    cluster.errors.clear()


def trim_all(cluster: FakeCluster, each: int, total: int) -> None:
    """Delete the oldest batches beyond these numbers of bytes, of each partition and of all together."""
    partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions]
    share = share_of([held(partition) for partition in partitions], total)
    for partition in partitions:
        trim(partition, min(each, share))


def share_of(sizes: Sequence[int], total: int) -> int:
    """The most that each may keep so that all of them have `total` at most: the largest ones lose first."""
    left = total
    for index, size in enumerate(sorted(sizes)):
        others = len(sizes) - index
        if size * others > left:
            return left // others
        left -= size
    return total


def held(partition: FakePartition) -> int:
    """The bytes of memory that its log takes."""
    return sum(len(stored.data) for stored in partition.log) + OBJECTS * len(partition.log)


def trim(partition: FakePartition, size: int) -> None:
    """Delete the oldest batches beyond this number of bytes in memory, but no open transaction."""
    left = held(partition)
    end = partition.first_offset
    for stored in partition.log:
        if left <= size or stored.batch.next_offset > partition.last_stable_offset:
            break
        left -= len(stored.data) + OBJECTS
        end = stored.batch.next_offset
    if end > partition.first_offset:
        partition.delete_before(end)


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    if problem := topic_name_error(name):
        raise ArgumentTypeError(problem)
    return name, count_of(partitions) if partitions else 1


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 <= int(text) <= 65_535:
        raise ArgumentTypeError(f"{text!r} is not a port: give a number up to 65535, or 0 for a free one")
    return int(text)


def make_parser() -> Parser:
    """The parser of `aioprod fake`."""
    parser = Parser(
        prog="aioprod fake",
        description="Serve fake Kafka brokers on this machine, for programs in any language: they produce, also in "
        "transactions, consume, join groups by both protocols, and manage topics. Nothing is stored on disk.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=_port, default=_PORT, help="of the first broker, others follow (default: 9092)")
    parser.add_argument("--brokers", type=count_of, default=1, metavar="COUNT", help="how many (default: 1)")
    parser.add_argument(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="a topic to begin with; more than once for several",
    )
    parser.add_argument(
        "--partitions",
        type=count_of,
        default=1,
        metavar="COUNT",
        help="of topics that are created without a number (default: 1)",
    )
    parser.add_argument("--no-auto-create", action="store_true", help="clients get an error for an unknown topic")
    parser.add_argument(
        "--keep",
        type=count_of,
        default=_KEEP_MB,
        metavar="MB",
        help="delete the oldest records of a partition beyond this (default: 64)",
    )
    parser.add_argument(
        "--keep-total",
        type=count_of,
        default=_KEEP_TOTAL_MB,
        metavar="MB",
        help="and those of the largest partitions, if all together have more than this (default: 512)",
    )
    parser.add_argument("--json", action="store_true", help="write servers and topics as a JSON document to stdout")
    return parser
