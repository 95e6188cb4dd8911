"""Random record batches in the JSON of `Batches.java`: the same source gives the same batches."""

from __future__ import annotations

import random
from typing import Any

from tests.support.golden import to_base64

__all__ = ["CODECS", "control_batch", "empty_batch", "random_batch", "sent_batch"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_NOW_MS = 1_700_000_000_000
_INT64_MAX = (1 << 63) - 1


def random_batch(source: random.Random, codec: str, big: bool = True) -> dict[str, Any]:
    """A batch as a broker keeps it: with or without producer id, gaps in its offsets, times of either kind."""
    count = source.choice([1, 2, 10, 300 if big else 5])
    base_offset = offset = source.choice([0, 1, 1 << 40])
    records = _random_records(source, count, big)
    gaps = source.random() < 0.3
    for record in records:
        offset += source.randint(0, 1000) if gaps else 0
        record["offset"] = offset
        offset += 1
    idempotent = source.random() < 0.5
    return {
        "codec": codec,
        "base_offset": base_offset,
        "last_offset": offset - 1 + (source.randint(0, 5) if gaps else 0),
        "leader_epoch": source.choice([-1, 0, 7]),
        "producer_id": source.choice([0, 4711, _INT64_MAX]) if idempotent else -1,
        "producer_epoch": source.choice([0, 5, 32_767]) if idempotent else -1,
        "base_sequence": source.choice([0, 100, (1 << 31) - 2]) if idempotent else -1,
        "transactional": idempotent and source.random() < 0.5,
        "append_time": _NOW_MS + 5 if source.random() < 0.3 else None,
        "marker": None,
        "records": records,
    }


def sent_batch(source: random.Random, codec: str, big: bool = True) -> dict[str, Any]:
    """A batch as a producer sends it: offsets from 0 on, and nothing of what a broker adds."""
    batch = random_batch(source, codec, big)
    records = [{**record, "offset": index} for index, record in enumerate(batch["records"])]
    last_offset = len(records) - 1
    sent = {"base_offset": 0, "last_offset": last_offset, "leader_epoch": -1, "append_time": None, "records": records}
    return {**batch, **sent}


def control_batch(source: random.Random, marker: str) -> dict[str, Any]:
    """The end of a transaction: `marker` is COMMIT or ABORT."""
    offset = source.randint(0, 1000)
    return {
        "codec": "none",
        "base_offset": offset,
        "last_offset": offset,
        "leader_epoch": 3,
        "producer_id": 4711,
        "producer_epoch": 5,
        "base_sequence": -1,
        "transactional": True,
        "append_time": None,
        "marker": marker,
        "coordinator_epoch": source.randint(0, 100),
        "records": [{"timestamp": _NOW_MS}],
    }


def empty_batch(source: random.Random) -> dict[str, Any]:
    """A batch after compaction has removed all of its records: only the header."""
    batch = random_batch(source, "none", big=False)
    return {**batch, "append_time": None, "records": []}


def _random_records(source: random.Random, count: int, big: bool) -> list[dict[str, Any]]:
    """`count` records without offsets: nulls, empty and long keys and values, headers, timestamps forth and back."""
    base = source.choice([_NOW_MS, _NOW_MS, 0, _INT64_MAX - 10_000_000])
    return [
        {
            "timestamp": max(0, base + source.randint(-10_000_000, 10_000_000)),
            "key": _data(source, 100),
            "value": _data(source, 100_000 if big and source.random() < 0.05 else 300),
            "headers": [
                [source.choice(["", "trace", "é\U0001f600", "x" * 200]), _data(source, 50)]
                for _ in range(source.choice([0, 0, 1, 4]))
            ],
        }
        for _ in range(count)
    ]


def _data(source: random.Random, size_max: int) -> str | None:
    kind = source.random()
    if kind < 0.15:
        return None
    size = source.randint(0, size_max) if kind < 0.9 else 0
    return to_base64(source.randbytes(size) if kind < 0.4 else (b"compressible " * (size // 13 + 1))[:size])
