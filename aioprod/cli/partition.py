"""`aioprod partition`: where keys go."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from aioprod.cli.arguments import count_of
from aioprod.config import KNOWN_CLASSES
from aioprod.console.frame import Parser
from aioprod.console.tables import key_text
from aioprod.errors import ConfigError
from aioprod.routing.columns import HASH_PARTITIONERS, Rule, rule_of
from aioprod.routing.hashes import HASHES

__all__ = ["main", "make_parser"]

_STDIN: Final = "-"

_ANY: Final = "any"
"""Where a key goes that the partitioner does not look at."""


def main(arguments: Sequence[str]) -> int:
    """Show where keys go, a line each; returns 0. What is wrong with the arguments ends the program with 2."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    rules = [rule_of(name) for name in (HASHES if given.all else [given.partitioner])]
    columns = HASHES if given.all else ["partition"]
    widths = [max(len(column), len(str(given.partitions - 1)), len(_ANY)) for column in columns]
    try:
        # What is on the command line is read before anything is shown.
        named = [key if key == _STDIN else _read(_bytes(key), given.hex) for key in given.keys]
        sys.stdout.write(_line(columns, widths, "key"))
        for key in _with_stdin(named, given.hex):
            sys.stdout.write(
                _line([_place(rule, key, given.partitions) for rule in rules], widths, key_text(key, at_most=None))
            )
    except ArgumentTypeError as error:
        parser.error(f"argument KEY: {error}")
    return 0


def _bytes(argument: str) -> bytes:
    # Bytes that are not UTF-8 come as they were typed.
    return argument.encode("utf-8", "surrogateescape")


def _place(rule: Rule, key: bytes, count: int) -> str:
    partition = rule.partition(key, count)
    return _ANY if partition is None else str(partition)


def _line(cells: Sequence[str], widths: Sequence[int], key: str) -> str:
    # The key is last: it may be of any length, and those from a pipe are shown as they come.
    numbers = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return f"{numbers}  {key}\n"


def _with_stdin(named: Sequence[bytes | str], is_hex: bool) -> Iterator[bytes]:
    for key in named:
        if isinstance(key, bytes):
            yield key
        else:
            yield from (_read(line.rstrip(b"\r\n"), is_hex) for line in sys.stdin.buffer)


def _read(text: bytes, is_hex: bool) -> bytes:
    if not is_hex:
        return text
    try:
        return bytes.fromhex(text.decode().removeprefix("0x"))
    except ValueError:
        typed = text.decode(errors="replace")
        raise ArgumentTypeError(f"{typed!r} is not hexadecimal: write two digits a byte, such as 6b6579") from None


def _partitioner(text: str) -> str:
    is_word = "." not in text and ":" not in text
    if is_word and text not in KNOWN_CLASSES["partitioner"]:
        near = get_close_matches(text, HASH_PARTITIONERS, n=1)
        choices = f"did you mean {near[0]}?" if near else f"take one of {', '.join(HASH_PARTITIONERS)}"
        raise ArgumentTypeError(f"{text!r} is not a partitioner: {choices}")
    try:
        rule_of(text)
    except ConfigError as error:
        raise ArgumentTypeError(" ".join(filter(None, [error.message, error.hint]))) from error
    return text


def make_parser() -> Parser:
    """The parser of `aioprod partition`."""
    parser = Parser(
        prog="aioprod partition",
        description="Show which partition of a topic each key goes to, as Kafka's clients choose it.",
        examples=[
            ("aioprod partition table-7 table-8 --partitions 12", "as Java's producer chooses"),
            ("aioprod partition - --partitions 12 --all", "the keys in a pipe, by each hash"),
        ],
        epilog="A key is what the producer's serializer makes of it: 42 in text is not 42 in 8 bytes.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "keys", nargs="+", metavar="KEY", help="a key as text, in UTF-8; '-' reads one from each line of stdin"
    )
    parser.add_argument(
        "--partitions", type=count_of, required=True, metavar="COUNT", help="the topic's number of partitions"
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--partitioner",
        type=_partitioner,
        default="murmur2",
        metavar="NAME",
        help="murmur2 (Java, and the default here), crc32 (librdkafka), fnv1a (sarama), murmur3, or another one that "
        "hashes keys, by the name that aioprod's setting partitioner takes",
    )
    way.add_argument("--all", action="store_true", help=f"show {', '.join(HASHES)} side by side")
    parser.add_argument("--hex", action="store_true", help="keys are bytes in hexadecimal, such as 6b6579 or 0x6b6579")
    return parser
