"""The rows of aiokafka's calls on aioprod: what a service pays, or saves, that changes one import."""

from __future__ import annotations

from typing import Final

from benchmarks.rows.row import AIOKAFKA, Contender, Row, cpu, row

__all__ = ["COMPAT"]

COMPILED: Final = "aioprod.compat"
INTERPRETED: Final = "aioprod.compat interpreted"
RECORDS: Final = 50_000


def _compat_row(name: str, title: str, call: str, *, keyed: bool = False) -> Row:
    """Both have aiokafka's own defaults, and the same keys and values."""
    return row(
        name,
        f"aiokafka's {title}, on aioprod",
        "",
        [
            Contender(COMPILED, "compat", call, RECORDS),
            Contender(INTERPRETED, "compat", call, RECORDS, {"build": "interpreted"}),
            Contender(AIOKAFKA, "aiokafka", call, RECORDS),
        ],
        cpu(1, AIOKAFKA, ours=COMPILED),
        cpu(1, AIOKAFKA, ours=INTERPRETED),
        brokers=("mock",),
        keyed=keyed,
        linger_ms=None,
        batch_size=None,
        beat="none",
    )


COMPAT: Final = (
    _compat_row("compat-send", "`send`, `gather`", "send_gathered"),
    _compat_row("compat-keyed", "`send` with keys, `gather`", "send_gathered", keyed=True),
    _compat_row("compat-tasks", "`send_and_wait` in 1000 tasks", "tasks"),
    _compat_row("compat-batches", "`create_batch`, `send_batch`", "send_batches"),
)
