"""The rows of sending: every call, both builds and loops, with and without keys, compression, TLS and limits."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.rows.row import AIOKAFKA, AIOPROD, CONFLUENT, INTERPRETED, KB, Check, Contender, Row, cpu, row

__all__ = ["SENDING"]

ON_ASYNCIO: Final = "aioprod, asyncio's loop"
CONFLUENT_BATCH: Final = "confluent-kafka produce_batch"
AIO_PRODUCER: Final = "confluent-kafka AIOProducer"

MANY_PARTITIONS: Final = 10_000
FEW_PARTITIONS: Final = 10


def _ours(call: str, records: int, label: str = AIOPROD, **settings: Any) -> Contender:
    return Contender(label, "aioprod", call, records, settings)


def _builds_and_loops(call: str, records: int, interpreted: int = 20_000) -> list[Contender]:
    """Return aioprod's contenders: as recommended, on the other loop, and interpreted."""
    return [
        _ours(call, records),
        _ours(call, records, ON_ASYNCIO, loop="asyncio"),
        _ours(call, interpreted, INTERPRETED, build="interpreted"),
    ]


def _confluent(call: str, records: int, label: str = CONFLUENT, **settings: Any) -> Contender:
    return Contender(label, "confluent", call, records, settings)


def _aiokafka(call: str, records: int, label: str = AIOKAFKA, **settings: Any) -> Contender:
    return Contender(label, "aiokafka", call, records, settings)


def _nowait_rows() -> list[Row]:
    rows = []
    for size_kb in (16, 128):
        default = f"{CONFLUENT}, its default batch of 1 MB"
        callback = [
            *_builds_and_loops("send_nowait", 300_000),
            _confluent("produce", 300_000),
            _confluent("produce", 300_000, default, batch_size=None),
        ]
        keyed = [_ours("send_nowait_keyed", 300_000), _confluent("produce_keyed", 300_000)]
        title = f"`send_nowait` + callback, {size_kb} KB batches"
        rows += [
            row(
                f"nowait-{size_kb}k",
                title,
                "confluent-kafka `produce` + callback",
                callback,
                cpu(5, CONFLUENT),
                batch_size=size_kb * KB,
            ),
            row(
                f"keyed-{size_kb}k",
                f"{title}, keyed (murmur2)",
                "the same, `murmur2_random`",
                keyed,
                cpu(4.8, CONFLUENT),
                batch_size=size_kb * KB,
                keyed=True,
            ),
        ]
    return rows


def _threads_row() -> Row:
    return row(
        "nowait-threads",
        "`aioprod.sync`: `send_nowait` + callback in 32 threads, 16 KB batches",
        "confluent-kafka `produce` + callback in 32 threads",
        [
            Contender(AIOPROD, "aioprod_sync", "send_nowait", 300_000),
            Contender(INTERPRETED, "aioprod_sync", "send_nowait", 20_000, {"build": "interpreted"}),
            _confluent("produce_in_threads", 300_000),
        ],
        cpu(1, CONFLUENT),
        batch_size=16 * KB,
    )


def _future_rows() -> list[Row]:
    aio_producer = Contender(AIO_PRODUCER, "confluent_aio", "produce_each", 30_000)
    return [
        row(
            "submit-each",
            "`submit`, futures awaited one by one",
            "aiokafka `send`, futures awaited one by one",
            [
                *_builds_and_loops("submit_each", 200_000)[:2],
                _aiokafka("send_each", 100_000),
                aio_producer,
            ],
            cpu(10, AIOKAFKA),
            beat="none",
        ),
        _tuned_row("submit-each", "`submit`, futures awaited one by one", "submit_each", "send_each", 12),
        row(
            "submit-gather",
            "`submit`, `asyncio.gather`",
            "aiokafka `send`, `gather`",
            [
                *_builds_and_loops("submit_gathered", 200_000),
                _aiokafka("send_gathered", 100_000),
                Contender(AIO_PRODUCER, "confluent_aio", "produce_gathered", 30_000),
            ],
            cpu(4, AIOKAFKA),
            beat="none",
        ),
        _tuned_row("submit-gather", "`submit`, `asyncio.gather`", "submit_gathered", "send_gathered", 4),
        row(
            "tasks",
            "1000 tasks each awaiting `send`",
            "aiokafka `send_and_wait`",
            [*_builds_and_loops("tasks", 200_000), _aiokafka("tasks", 100_000)],
            cpu(5, AIOKAFKA),
            Check("p99_us", "times", 1, (AIOKAFKA,)),
        ),
        row(
            "interpreted",
            "pure-Python build, `submit`",
            "aiokafka compiled",
            [_ours("submit_each", 30_000, INTERPRETED, build="interpreted"), _aiokafka("send_each", 50_000)],
            Check("cpu_us", "times", 1, (AIOKAFKA,), (INTERPRETED,)),
            beat="none",
        ),
    ]


def _tuned_row(name: str, title: str, ours: str, theirs: str, bound: float) -> Row:
    return row(
        f"{name}-tuned",
        f"{title}, the collector set by `aioprod.tune()`",
        "aiokafka, the collector set in the same way",
        [_ours(ours, 200_000), _aiokafka(theirs, 100_000)],
        cpu(bound, AIOKAFKA),
        tuned=True,
        beat="none",
    )


def _bulk_rows() -> list[Row]:
    produce = _confluent("produce", 300_000)
    return [
        row(
            "send-many",
            "`send_many`",
            "confluent-kafka `produce_batch` or `produce`, the better",
            [
                *_builds_and_loops("send_many", 1_000_000),
                _confluent("produce_batch", 300_000, CONFLUENT_BATCH),
                produce,
            ],
            cpu(14, CONFLUENT, CONFLUENT_BATCH),
        ),
        row(
            "send-arrow",
            "`send_arrow`, 10,000 rows a batch",
            "confluent-kafka `produce`",
            [_ours("send_arrow", 1_000_000), produce],
            cpu(12, CONFLUENT),
        ),
        *(
            row(
                f"{name}-keyed",
                f"{title}, keyed (murmur2)",
                "confluent-kafka `produce_batch` or `produce`, keyed, the better",
                [
                    _ours(call, 1_000_000),
                    _confluent("produce_batch", 300_000, CONFLUENT_BATCH),
                    _confluent("produce_keyed", 300_000),
                ],
                cpu(bound, CONFLUENT, CONFLUENT_BATCH),
                keyed=True,
            )
            for name, title, call, bound in (
                ("send-many", "`send_many`", "send_many", 1),
                ("send-arrow", "`send_arrow`, 10,000 rows a batch", "send_arrow", 9),
            )
        ),
    ]


def _idle_row() -> Row:
    return row(
        "idle",
        "idle, one `await send` at a time, defaults",
        "aiokafka `send_and_wait`",
        [
            _ours("idle", 2000),
            _aiokafka("idle", 2000),
            _ours("idle", 2000, ON_ASYNCIO, loop="asyncio"),
            _ours("idle", 1000, INTERPRETED, build="interpreted"),
            _aiokafka("idle", 2000, f"{AIOKAFKA}, asyncio's loop", loop="asyncio"),
            Contender(AIO_PRODUCER, "confluent_aio", "idle", 1000),
        ],
        cpu(1 / 0.45, AIOKAFKA),
        Check("p50_us", "times", 1 / 0.8, (AIOKAFKA,)),
        Check("p99_us", "times", 1, (AIOKAFKA,)),
        linger_ms=None,
        batch_size=None,
        beat="none",
    )


def _idempotence_row() -> Row:
    with_it, without = "aioprod, idempotent", "aioprod, not idempotent"
    return row(
        "idempotence",
        "`send_nowait` + callback, 16 KB batches, idempotent",
        "the same producer without idempotence",
        [
            _ours("send_nowait", 600_000, with_it, idempotence=True),
            _ours("send_nowait", 600_000, without, idempotence=False),
        ],
        Check("cpu_us", "within", 1.03, (without,), (with_it,)),
        batch_size=16 * KB,
    )


def _compression_rows() -> list[Row]:
    return [
        row(
            f"{codec}-{size_kb}k",
            f"{size_kb} KB values, {codec}",
            "confluent-kafka `produce` + callback",
            [_ours("send_nowait", records), _confluent("produce", records)],
            cpu(1, CONFLUENT),
            compression=codec,
            value_size=size_kb * KB,
        )
        for size_kb, records in ((1, 50_000), (10, 10_000), (100, 2_000))
        for codec in ("lz4", "zstd")
    ] + [
        row(
            "plain-1k",
            "1 KB values, not compressed",
            "confluent-kafka `produce` + callback",
            [_ours("send_nowait", 100_000), _confluent("produce", 100_000)],
            cpu(1.5, CONFLUENT),
            value_size=KB,
        )
    ]


def _limit_rows() -> list[Row]:
    full: dict[str, Any] = {"compression": "gzip", "gzip_level": 9, "batch_size": 1_000_000, "beat": "turn"}
    gap_labels = ("aioprod send_nowait", "aioprod send_many")
    many, few = f"aioprod, {MANY_PARTITIONS:,} partitions", f"aioprod, {FEW_PARTITIONS} partitions"
    return [
        row(
            "partitions",
            "10,000 partitions of 1,000 topics",
            "the same producer with 10 partitions",
            [
                Contender(many, "aioprod", "spread", 300_000, {}, MANY_PARTITIONS),
                Contender(few, "aioprod", "spread", 300_000, {}, FEW_PARTITIONS),
            ],
            Check("cpu_us", "within", 1.3, (few,), (many,)),
            batch_size=16 * KB,
        ),
        row(
            "loop-gap",
            "largest loop gap, gzip level 9, 1 MB batches",
            "thread CPU time between two turns of the loop",
            [
                _ours("send_nowait", 100_000, gap_labels[0]),
                _ours("send_many", 100_000, gap_labels[1]),
                _aiokafka("send_each", 50_000),
            ],
            Check("gap_ms", "limit", 10, (), gap_labels),
            **full,
        ),
        row(
            "memory",
            "peak memory, 2 million records, 32 MB buffer",
            "confluent-kafka `produce` + callback",
            [_ours("send_nowait", 2_000_000), _confluent("produce", 2_000_000)],
            Check("peak_mb", "times", 1, (CONFLUENT,)),
            buffer_memory=32 * KB * KB,
        ),
    ]


def _tls_rows() -> list[Row]:
    """The same work, which both clients' libraries encrypt alike."""
    shared: dict[str, Any] = {"brokers": ("tls",)}
    return [
        row(
            "nowait-tls",
            "`send_nowait` + callback over TLS",
            "confluent-kafka `produce` + callback",
            [_ours("send_nowait", 300_000), _confluent("produce", 300_000)],
            cpu(3, CONFLUENT),
            **shared,
        ),
        row(
            "plain-1k-tls",
            "1 KB values over TLS, not compressed",
            "confluent-kafka `produce` + callback",
            [_ours("send_nowait", 100_000), _confluent("produce", 100_000)],
            cpu(2, CONFLUENT),
            value_size=KB,
            **shared,
        ),
        row(
            "send-many-tls",
            "`send_many` over TLS",
            "confluent-kafka `produce_batch` or `produce`, the better",
            [
                _ours("send_many", 1_000_000),
                _confluent("produce_batch", 300_000, CONFLUENT_BATCH),
                _confluent("produce", 300_000),
            ],
            cpu(4, CONFLUENT, CONFLUENT_BATCH),
            **shared,
        ),
        row(
            "submit-each-tls",
            "`submit` over TLS, futures awaited one by one",
            "aiokafka `send`, futures awaited one by one",
            [_ours("submit_each", 200_000), _aiokafka("send_each", 100_000)],
            cpu(1, AIOKAFKA),
            beat="none",
            **shared,
        ),
    ]


SENDING: Final = (
    *_nowait_rows(),
    _threads_row(),
    *_future_rows(),
    *_bulk_rows(),
    _idle_row(),
    _idempotence_row(),
    *_compression_rows(),
    *_tls_rows(),
    *_limit_rows(),
)
"""In the order in which they run: 10,000 partitions come late, as the broker keeps them."""
