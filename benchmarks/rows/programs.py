"""The rows of whole programs, their start included: commands beside those of other clients, and imports."""

from __future__ import annotations

from typing import Final

from benchmarks.rows.row import AIOKAFKA, AIOPROD, INTERPRETED, Check, Contender, Row, cpu, row

__all__ = ["PROGRAMS"]

KCAT: Final = "kcat -P"
JAVA: Final = "ProducerPerformance"
CONFLUENT_IMPORT: Final = "confluent-kafka"
LINES: Final = 2_000_000
PERF_RECORDS: Final = 3_000_000


def _produce_row(size: int) -> Row:
    return row(
        f"produce-{size}",
        f"`aioprod produce` from a pipe, lines of {size} B",
        "`kcat -P`, both with their defaults",
        [
            Contender(AIOPROD, "programs", "aioprod_produce", LINES),
            Contender(KCAT, "programs", "kcat", LINES, needs="kcat"),
        ],
        cpu(1.2, KCAT),
        value_size=size,
        batch_size=None,
        linger_ms=None,
    )


def _perf_row() -> Row:
    """Not on the mock broker, which Java's client takes for a broken one."""
    return row(
        "perf",
        "`aioprod perf`, records of 100 B",
        "Java's `ProducerPerformance`, both with their defaults",
        [
            Contender(AIOPROD, "programs", "aioprod_perf", PERF_RECORDS),
            Contender(JAVA, "programs", "java_perf", PERF_RECORDS),
        ],
        cpu(1, JAVA),
        brokers=("kafka",),
        batch_size=None,
        linger_ms=None,
    )


def _import_row() -> Row:
    """On one broker, which it does not need."""
    imported = {
        AIOPROD: "aioprod; aioprod.Producer",
        INTERPRETED: "aioprod; aioprod.Producer",
        "aioprod.spark.datasource": "aioprod.spark.datasource",
        AIOKAFKA: "aiokafka; aiokafka.AIOKafkaProducer",
        CONFLUENT_IMPORT: "confluent_kafka; confluent_kafka.Producer",
        "Python's asyncio": "asyncio",
    }
    return row(
        "import",
        "import, `Producer` named",
        "",
        [
            Contender(
                label,
                "imports",
                "import",
                1,
                {"imported": what} | ({"build": "interpreted"} if label == INTERPRETED else {}),
            )
            for label, what in imported.items()
        ],
        Check("cpu_us", "within", 1.2, (AIOKAFKA,)),
        cpu(1, CONFLUENT_IMPORT),
        brokers=("mock",),
        unit="import",
        batch_size=None,
        linger_ms=None,
    )


PROGRAMS: Final = (_produce_row(100), _produce_row(8), _perf_row(), _import_row())
