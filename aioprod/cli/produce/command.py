"""The arguments of `aioprod produce`, and what it says at its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Any, Final

from aioprod._words import counted
from aioprod.cli.connection import add_connection_options, config_of
from aioprod.cli.produce.chunks import STDIN, check_readable
from aioprod.cli.produce.delivery import Delivery, Report, Terms
from aioprod.cli.produce.formats import CONVERSIONS, FORMATS, Format, Rows, rows_of
from aioprod.cli.progress import Progress
from aioprod.cli.running import fast_loop, run_command
from aioprod.cli.times import timestamp_ms
from aioprod.config import ProducerConfig
from aioprod.console.frame import Parser
from aioprod.errors import ConfigError
from aioprod.producer import Producer
from aioprod.producer.bulk.send_many import RECORDS_PER_TURN

__all__ = ["main", "make_parser"]

_DEFAULTS: Final = {"client.id": "aioprod-produce", "batch.size": 131_072, "linger.ms": 20}
_TRANSACTION_MS: Final = 900_000
"""As long as brokers allow by default: a large file takes longer than a service's transaction."""
_FINISH_S: Final = 30.0
"""How long the outcome of what was sent is waited for when the input fails, or at Ctrl-C."""
_MB_FROM: Final = 100_000
"""Fewer bytes than this are shown as they are."""

_EXAMPLES: Final = (
    ("seq 10 | aioprod produce numbers -b localhost:9092", "each line of a pipe as a record"),
    ("aioprod produce orders orders.csv -b localhost:9092 --format csv --key-field id", "rows as JSON, with keys"),
    (
        "aioprod produce orders -F client.properties --format jsonl --transactional-id load-1 day.jsonl",
        "all or nothing",
    ),
    ("echo 'a:1' | aioprod produce t -b localhost:9092 --key-separator : --header source=shell", "a key and a header"),
)


def main(arguments: Sequence[str]) -> int:
    """Send the records; returns 0 when all were delivered, 1 otherwise."""
    parser = make_parser()
    # Files may come after options, too.
    given = parser.parse_intermixed_args(arguments)
    with parser.usage_errors():
        for path in given.files:
            check_readable(path)
        config = _config(given)
        how = _format(given)
    return run_command(_produce(given, config, how), fast_loop())


def _config(given: Namespace) -> ProducerConfig:
    is_transactional = given.transactional or given.transactional_id is not None
    more = {"transaction.timeout.ms": _TRANSACTION_MS} if is_transactional else {}
    config = config_of(given, ProducerConfig, {**_DEFAULTS, **more})
    if given.transactional_id is not None:
        config = config.replace(transactional_id=given.transactional_id)
    if given.transactional and config.transactional_id is None:
        raise ConfigError("--transactional needs a name.", hint="Add --transactional-id NAME.")
    return config


def _format(given: Namespace) -> Format:
    if given.key_separator is not None and given.format != "lines":
        raise ConfigError("--key-separator is for lines.", hint="Name the field with the key by --key-field.")
    if given.key_field is not None and given.format == "lines":
        raise ConfigError("--key-field is for jsonl and csv.", hint="Lines have keys by --key-separator.")
    return Format(
        given.format,
        None if given.key_separator is None else given.key_separator.encode(),
        given.key_field,
        None if given.null_value is None else given.null_value.encode(),
        given.key_type,
        given.value_type,
    )


async def _produce(given: Namespace, config: ProducerConfig, how: Format) -> int:
    report = Report()
    start = time.monotonic()
    is_interrupted = False
    try:
        async with Producer(config=config) as producer:
            terms = Terms(given.topic, given.header or None, given.partition, given.timestamp)
            delivery = Delivery(producer, terms)
            report = delivery.report
            if config.transactional_id is None:
                await _send_all(given, how, delivery)
            else:
                await _in_transaction(producer, given, how, delivery)
    except asyncio.CancelledError:
        is_interrupted = True
        raise
    finally:
        _show(report, time.monotonic() - start, given, is_interrupted=is_interrupted)
    _say_failure(report)
    return 1 if report.first_failure is not None else 0


async def _in_transaction(producer: Producer, given: Namespace, how: Format, delivery: Delivery) -> None:
    """All or nothing: a failure or an interruption aborts."""
    await producer.begin_transaction()
    try:
        await _send_all(given, how, delivery)
    except BaseException:
        await asyncio.shield(producer.abort_transaction())
        delivery.report.abort()
        raise
    if delivery.has_failed:
        await producer.abort_transaction()
        delivery.report.abort()
    else:
        await producer.commit_transaction()


async def _send_all(given: Namespace, how: Format, delivery: Delivery) -> None:
    """Send all files in order until one fails; what was sent gets its outcome also when this is cancelled."""
    progress = Progress(sys.stderr)
    report = delivery.report
    start = time.monotonic()
    sent = 0
    try:
        for path in given.files:
            source = "stdin" if path == STDIN else path
            async for rows in rows_of(path, how):
                for part in _paced(rows, given.rate):
                    await delivery.send(source, part)
                    sent += len(part.values) + len(part.single)
                    progress.show(lambda: f"{report.delivered:,} records delivered")
                    if given.rate is not None:
                        await asyncio.sleep(max(0.0, start + sent / given.rate - time.monotonic()))
                    if delivery.has_failed:
                        break
                if delivery.has_failed:
                    break
            if delivery.has_failed:
                break
        await delivery.finish()
    except BaseException:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_S):
                await delivery.finish()
        raise
    finally:
        progress.clear()


def _paced(rows: Rows, rate: float | None) -> list[Rows]:
    """The rows in parts of a tenth of a second each, if their rate is limited."""
    if rate is None:
        return [rows]
    size = max(1, min(RECORDS_PER_TURN, int(rate / 10)))
    count = max(len(rows.values), len(rows.single))
    parts = [
        Rows(
            rows.line + start,
            rows.values[start : start + size],
            None if rows.keys is None else rows.keys[start : start + size],
            rows.single[start : start + size],
        )
        for start in range(0, count, size)
    ] or [Rows(rows.line)]
    parts[-1].error, parts[-1].error_line = rows.error, rows.error_line
    return parts


def _say_failure(report: Report) -> None:
    if (first := report.first_failure) is not None:
        sys.stderr.write(f"aioprod produce: line {first.line:,} of {first.source}: {first.error.message}\n")
        if first.error.hint:
            sys.stderr.write(f"{first.error.hint}\n")


def _show(report: Report, seconds: float, given: Namespace, *, is_interrupted: bool) -> None:
    if given.json:
        sys.stdout.write(f"{json.dumps(_document(report, seconds, given.topic, is_interrupted))}\n")
        return
    rate = report.delivered / seconds if seconds > 0 else 0.0
    failed = f", {report.failed:,} not" if report.failed else ""
    undone = " (the transaction was aborted: no reader sees them)" if report.is_aborted else ""
    records = counted(report.delivered, "record", ",")
    sys.stderr.write(
        f"{records} delivered to {given.topic}{undone}{failed}, "
        f"{_size(report.sent_bytes)} in {seconds:.2f} s ({rate:,.0f} a second)\n"
    )


def _size(count: int) -> str:
    """Bytes of values, in MB where there are enough."""
    return f"{count / 1e6:,.1f} MB" if count >= _MB_FROM else counted(count, "byte", ",")


def _document(report: Report, seconds: float, topic: str, is_interrupted: bool) -> dict[str, Any]:
    first = report.first_failure
    return {
        "topic": topic,
        "delivered": report.delivered,
        "failed": report.failed,
        "aborted": report.is_aborted,
        "interrupted": is_interrupted,
        "bytes": report.sent_bytes,
        "seconds": round(seconds, 3),
        "partitions": [
            {"partition": tp.partition, "records": count, "first_offset": low, "last_offset": high}
            for tp, (low, high, count) in sorted(report.partitions.items())
        ],
        "error": None
        if first is None
        else {
            "source": first.source,
            "line": first.line,
            "type": type(first.error).__name__,
            "text": first.error.message,
        },
    }


def _header(text: str) -> tuple[str, bytes]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ArgumentTypeError(f"{text!r} is not a header: write it as source=shell")
    return name, value.encode()


def _index(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise ArgumentTypeError(f"{text!r} is not a partition: give a number from 0 on")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e12:
        raise ArgumentTypeError(f"{text!r} is not a rate: give records a second, more than 0")
    return rate


def make_parser() -> Parser:
    """The parser of `aioprod produce`."""
    parser = Parser(
        prog="aioprod produce",
        description="Send the lines of files or of stdin to a topic, in their order, each as a record. It stops at the "
        "first that fails, and says which line that is. What was sent before has its outcome in the report.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    parser.add_argument("topic", metavar="TOPIC", help="where to")
    parser.add_argument(
        "files", metavar="FILE", nargs="*", default=[STDIN], help="files to read; '-' is stdin, the default"
    )
    records = parser.add_argument_group("records")
    records.add_argument(
        "--format",
        choices=list(FORMATS),
        default="lines",
        help="lines: each is a value; jsonl: each is an object with value and, if wanted, key, headers, partition and "
        "timestamp, or, with --key-field, the value itself; csv: rows are JSON objects by the names in the first row",
    )
    records.add_argument("--key-separator", metavar="TEXT", help="lines are KEY TEXT VALUE, by the first such text")
    records.add_argument("--key-field", metavar="NAME", help="the field of jsonl or the column of csv that has the key")
    records.add_argument("--key-type", choices=list(CONVERSIONS), default="text", help="what keys are (default: text)")
    records.add_argument(
        "--value-type", choices=list(CONVERSIONS), default="text", help="what values are (default: text)"
    )
    records.add_argument("--null-value", metavar="TEXT", help="a line or key that is this text is null: a tombstone")
    records.add_argument(
        "--header", action="append", type=_header, metavar="NAME=VALUE", help="a header of all records; may be repeated"
    )
    records.add_argument("--partition", type=_index, metavar="NUMBER", help="send all records there")
    records.add_argument(
        "--timestamp", type=timestamp_ms, metavar="TIME", help="of all records: ISO 8601, or milliseconds"
    )
    sending = parser.add_argument_group("sending")
    sending.add_argument("--rate", type=_rate, metavar="NUMBER", help="send so many records a second at most")
    sending.add_argument(
        "--transactional", action="store_true", help="send all records in one transaction: all are stored, or none"
    )
    sending.add_argument(
        "--transactional-id", metavar="NAME", help="the name of the transaction's producer; implies it"
    )
    parser.add_argument("--json", action="store_true", help="write the report to stdout, as a JSON document")
    add_connection_options(parser)
    return parser
