"""The rows of reading: every call of every client, for two sizes of values, plain and compressed."""

from __future__ import annotations

from typing import Final

from benchmarks.rows.row import Check, Contender, Row, cpu, row

__all__ = ["READING"]

READ: Final = "aioprod Reader.read"
READ_ARROW: Final = "aioprod Reader.read_arrow"
MEMBER: Final = "aioprod Member"
LISTS: Final = "aioprod Member.batches"
MEMBER_ARROW: Final = "aioprod Member.arrow_batches"
POLL: Final = "confluent-kafka poll"
CONSUME: Final = "confluent-kafka consume"

CALLS: Final = {
    READ: "read",
    READ_ARROW: "read_arrow",
    MEMBER: "member",
    LISTS: "member_lists",
    MEMBER_ARROW: "member_arrow",
    "aiokafka iteration": "aiokafka",
    "aiokafka getmany": "aiokafka_lists",
    POLL: "poll",
    CONSUME: "consume",
}
"""The contenders, and how `contenders/reading.py` calls what they do."""


def _checks(read: float, arrow: float, member: float, lists: float) -> tuple[Check, ...]:
    return (
        cpu(member, POLL, ours=MEMBER),
        cpu(lists, CONSUME, ours=LISTS),
        cpu(read, CONSUME, ours=READ),
        cpu(arrow, CONSUME, ours=READ_ARROW),
    )


def _reading_row(size: int, records: int, codec: str, *checks: Check) -> Row:
    name = f"read-{size}" if codec == "none" else f"read-{size}-{codec}"
    title = f"reading {size:,} B" if codec == "none" else f"reading {size:,} B, {codec}"
    return row(
        name,
        title,
        "",
        [Contender(label, "reading", call, records) for label, call in CALLS.items()],
        *checks,
        brokers=("kafka", "fake"),
        value_size=size,
        compression=codec,
        batch_size=None,
        linger_ms=None,
        beat="none",
    )


READING: Final = tuple(
    _reading_row(size, records, codec, *checks)
    for size, records, checks in (
        (100, 400_000, _checks(read=1, arrow=1, member=1.5, lists=2)),
        (1000, 100_000, _checks(read=1.1, arrow=1.1, member=1, lists=1)),
    )
    for codec in ("none", "lz4")
)
