"""The arguments of `aioprod read`."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import BinaryIO, Final

from aioprod.cli.connection import add_connection_options, config_of
from aioprod.cli.read.output import Format, Render, as_escaped_value, as_hex, as_json, as_value
from aioprod.cli.read.source import Bounds, Chunk, Place, bounded, followed, of_member, resolved
from aioprod.cli.running import fast_loop, run_command
from aioprod.cli.times import timestamp_ms
from aioprod.console.frame import Parser
from aioprod.errors import ConfigError
from aioprod.group import Member, MemberConfig
from aioprod.reader import Reader, ReaderConfig
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["main", "make_parser", "render_of"]

_CLIENT: Final = {"client.id": "aioprod-read"}

_BYTES: Final = ("key.deserializer", "value.deserializer")
"""Not used: keys and values are written as the bytes that they are."""

_EXAMPLES: Final = (
    ("aioprod read orders -b localhost:9092", "all values, one in a line, and then the end"),
    ("aioprod read orders -b localhost:9092 --tail 10", "the last ten of each partition, then those that come"),
    (
        "aioprod read orders -b localhost:9092 --from 2026-11-01T10:00 --until 2026-11-01T11:00 --json",
        "an hour, as JSON",
    ),
    (r"aioprod read orders -b localhost:9092 --format '%p %o %k %s\n'", "as kcat -f"),
    ("aioprod read orders -b localhost:9092 --group audit --json", "as a member of a group, which commits"),
)


def main(arguments: Sequence[str]) -> int:
    """Print records; returns 0 at the end of what is to be read."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    render = render_of(given)
    with parser.usage_errors():
        if given.group is None:
            work = _read(given, config_of(given, ReaderConfig, _CLIENT, unused=_BYTES), render)
        else:
            _check_member(given)
            config = config_of(given, MemberConfig, _CLIENT, unused=[*_BYTES, "enable.auto.commit"])
            work = _read_as_member(given, config.replace(group_id=given.group), render)
    return run_command(work, fast_loop())


def render_of(given: Namespace) -> Render:
    """How the arguments want records to be written."""
    if given.json or given.hex:
        return as_json if given.json else as_hex
    is_raw = given.raw or not sys.stdout.isatty()
    if given.format is not None:
        chosen: Format = given.format
        return chosen.render if is_raw else chosen.render_escaped
    return as_value if is_raw else as_escaped_value


def _check_member(given: Namespace) -> None:
    if given.start != "earliest" or any(one is not None for one in (given.until, given.tail, given.partition)):
        raise ConfigError(
            "--group reads what the group assigns, from its committed offsets on: --from, --until, --tail and "
            "--partition can't be set."
        )


async def _read(given: Namespace, config: ReaderConfig, render: Render) -> int:
    output = sys.stdout.buffer
    left = given.count
    async with Reader(config=config, isolation_level=given.isolation) as reader:
        bounds = Bounds(given.start, given.until, given.tail, given.partition)
        spans = await resolved(reader, given.topic, bounds)
        async for chunk in _with_following(given, reader, spans):
            left = _write(output, render, chunk, left)
            if left == 0:
                break
    return 0


async def _with_following(
    given: Namespace, reader: Reader, spans: dict[int, tuple[int, int]]
) -> AsyncGenerator[Chunk, None]:
    async with aclosing(bounded(reader, given.topic, spans)) as chunks:
        async for chunk in chunks:
            yield chunk
    if given.follow or given.tail is not None:
        sys.stdout.buffer.flush()
        starts = {partition: end for partition, (_, end) in spans.items()}
        async with aclosing(followed(reader, given.topic, starts)) as chunks:
            async for chunk in chunks:
                yield chunk
                sys.stdout.buffer.flush()


def _write(output: BinaryIO, render: Render, chunk: Chunk, left: int | None) -> int | None:
    """Write records, no more than are `left`; returns how many are left then."""
    records = chunk.records if left is None else chunk.records[:left]
    topic, partition = chunk.topic, chunk.partition
    if render is as_value:
        output.write(b"".join([record.value + b"\n" if record.value else b"\n" for record in records]))
    else:
        output.write(b"".join([render(topic, partition, record) for record in records]))
    return None if left is None else left - len(records)


async def _read_as_member(given: Namespace, config: MemberConfig, render: Render) -> int:
    """Read until interrupted, or until enough records were written; commits what was written."""
    output = sys.stdout.buffer
    left = given.count
    member = Member(
        config=config,
        topics=[given.topic],
        isolation_level=given.isolation,
        auto_offset_reset="earliest",
    )
    async with member, aclosing(of_member(member)) as lists:
        async for chunks in lists:
            written: dict[TopicPartition, int | OffsetAndMetadata] = {}
            for chunk in chunks:
                before = left
                left = _write(output, render, chunk, left)
                count = len(chunk.records) if before is None or left is None else before - left
                if count:
                    last = chunk.records[count - 1]
                    written[TopicPartition(chunk.topic, chunk.partition)] = last.offset + 1
            output.flush()
            await member.commit(written)
            if left == 0:
                break
    return 0


def _bound(text: str) -> Place:
    """`earliest`, `latest`, an offset, or a time: a whole number of less than 13 digits is an offset."""
    if text in ("earliest", "latest"):
        return text
    if text.isdecimal() and len(text) < 13:
        return int(text)
    if text.startswith("-") and text[1:].isdecimal():
        raise ArgumentTypeError(
            f"{text!r} is no place: --tail {text[1:]} reads the last of each partition, then those that come"
        )
    return f"time:{timestamp_ms(text)}"


def _partitions(text: str) -> frozenset[int]:
    found: set[int] = set()
    for word in text.split(","):
        first, hyphen, last = word.partition("-")
        if not first.isdecimal() or (hyphen and not last.isdecimal()) or len(word) > 15:
            raise ArgumentTypeError(f"{word!r} is not a partition: write them as 0,2-4")
        low, high = int(first), int(last or first)
        if high < low or high - low > 100_000:
            raise ArgumentTypeError(f"{word!r} is not a range of partitions: write it as 2-4")
        found.update(range(low, high + 1))
    return frozenset(found)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of records: give one from 1 on")
    return int(text)


def make_parser() -> Parser:
    """The parser of `aioprod read`."""
    parser = Parser(
        prog="aioprod read",
        description="Print the records of a topic, by default all values up to the present end, each in a line. "
        "Records of a partition are in order, those of several are mixed.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    parser.add_argument("topic", metavar="TOPIC", help="what to read")
    which = parser.add_argument_group("which records")
    which.add_argument(
        "--from",
        dest="start",
        type=_bound,
        default="earliest",
        metavar="PLACE",
        help="earliest (the default), latest, an offset of all partitions, or a time: ISO 8601, or milliseconds",
    )
    which.add_argument("--until", type=_bound, metavar="PLACE", help="stop before this place, at the latest at the end")
    which.add_argument("--tail", type=_count, metavar="COUNT", help="the last of each partition, then those that come")
    which.add_argument("--follow", action="store_true", help="continue with the records that come, until interrupted")
    which.add_argument("--count", type=_count, metavar="COUNT", help="stop after so many records")
    which.add_argument("--partition", type=_partitions, metavar="NUMBERS", help="only these, such as 0,2-4")
    which.add_argument(
        "--isolation",
        choices=["read_uncommitted", "read_committed"],
        help="read_committed leaves out records of open and of aborted transactions (default: isolation.level of the "
        "settings, else read_uncommitted)",
    )
    which.add_argument("--group", metavar="NAME", help="read as a member of this group, and commit what was written")
    how = parser.add_argument_group("how they are shown")
    shown = how.add_mutually_exclusive_group()
    shown.add_argument(
        "--format",
        type=Format,
        metavar="TEMPLATE",
        help=r"%%s value, %%S its size, %%k key, %%K its size, %%t topic, %%p partition, %%o offset, %%h headers, "
        r"%%T timestamp, %%%% a percent sign; \n, \t, \xNN",
    )
    shown.add_argument(
        "--json", action="store_true", help="a JSON object in each line; bytes that are not UTF-8 in Base64"
    )
    shown.add_argument("--hex", action="store_true", help="key and value in hexadecimal, with a tab between them")
    how.add_argument(
        "--raw",
        action="store_true",
        help="write values and keys to a terminal as they are: without it, their control characters are escaped there",
    )
    add_connection_options(parser)
    return parser
