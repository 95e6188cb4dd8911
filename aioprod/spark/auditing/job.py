"""`audit` itself: digests first, and each row only where they differ."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError, UsageError
from aioprod.reader.config import ISOLATION_LEVELS, ReaderConfig
from aioprod.spark.auditing.compare import compare
from aioprod.spark.auditing.page import page_of
from aioprod.spark.auditing.reading import rows_from, starts_of
from aioprod.spark.auditing.report import AuditReport, PartitionAudit
from aioprod.spark.digest import Digest, digests
from aioprod.spark.folder import Folder, folder_at, local_folder
from aioprod.spark.loading.cluster import topic_state
from aioprod.spark.manifest import FILE, Manifest, all_receipts
from aioprod.spark.options import KafkaSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["audit", "check"]

_NOTHING: Final = Digest(0, 0, 0, 0, 0, -1, -1)


def audit(
    spark: SparkSession,
    *,
    manifest: str,
    bootstrap_servers: str,
    topic: str,
    isolation: str = "read_committed",
    report: str | None = None,
    others: bool = False,
    **options: Any,
) -> AuditReport:
    """Compare a topic, up to its present end, with the manifest that `load` left in a folder.

    Of the topic that was loaded, what was there before the run does not count; any other topic, such as a copy or a
    mirror, is compared as a whole. Rows are compared by key and value, not by headers and timestamps. `others` says
    that other producers write to the topic too: rows that the manifest does not know are counted, but are not an error.
    `report`: an HTML file to write. `options` are further settings of Kafka's clients, by Java's names or ours.

    Raises ConfigError for a folder without a manifest, UsageError for the manifest of a run that is not complete,
    or whose chunks are not its input, UnknownTopicError, and what reading raises.
    """
    if isolation not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation is {isolation!r}: it must be one of {', '.join(ISOLATION_LEVELS)}.")
    started = time.monotonic()
    kafka = _settings({"bootstrap.servers": bootstrap_servers, **options})
    folder = folder_at(spark, manifest)
    known = _promise_in(folder)
    known.check_sum()
    state = topic_state(kafka.session(), topic)
    rows = rows_from(spark, kafka, topic, starts_of(known, state, topic), isolation)
    promised = known.promised()
    found = digests(rows)
    partitions = _partitions(promised, found)
    result: dict[str, Any] = {}
    if not all(one.is_same for one in partitions):
        receipts = all_receipts(spark, folder.path).where(f"chunk < {known.plan.chunks}")
        compared = compare(receipts, rows)
        result = {"counts": compared.counts, "findings": compared.findings, "was_full": True}
        result["changed"] = _changed(promised, receipts)
    done = AuditReport(
        run_id=known.run_id,
        topic=topic,
        isolation=isolation,
        partitions=partitions,
        others=others,
        seconds=time.monotonic() - started,
        **result,
    )
    if report is not None:
        page_of(done).save(report)
    return done


def check(*, manifest: str, bootstrap_servers: str, topic: str, options: Mapping[str, Any]) -> None:
    """Raise what `audit` with the same arguments would raise later, as far as that can be seen without Spark.

    A manifest is looked at where it is in a folder of this machine.
    """
    kafka = _settings({"bootstrap.servers": bootstrap_servers, **options})
    folder = local_folder(manifest)
    if folder is not None:
        _promise_in(folder)
    topic_state(kafka.session(), topic)


def _promise_in(folder: Folder) -> Manifest:
    """The manifest of a run that is complete; raises ConfigError where there is none, UsageError for another one."""
    text = folder.read(FILE)
    if text is None:
        raise ConfigError(
            f"There is no manifest in {folder.path!r}.", hint="Give the folder that load(manifest=...) wrote to."
        )
    known = Manifest.from_json(text)
    if not known.is_complete:
        raise UsageError(
            f"Run {known.run_id!r} is not complete: {len(known.chunks)} of {known.plan.chunks} chunks are in its "
            "manifest.",
            hint="load(..., resume=True), or --resume, continues it.",
        )
    return known


def _changed(promised: Mapping[int, Digest], receipts: DataFrame) -> tuple[int, ...]:
    """Partitions whose receipts are not those that the manifest was made of: they prove nothing."""
    try:
        held = digests(receipts)
    except ConfigError:  # Some are there twice.
        held = {}
    return tuple(one.partition for one in _partitions(promised, held) if not one.is_same)


def _settings(given: Mapping[str, Any]) -> KafkaSettings:
    """Those of a reader, by Java's names. A producer's are left out, so that one file of settings does for both jobs;
    raises ConfigError for what neither has."""
    named = KafkaSettings.named(given)
    kafka = KafkaSettings(named.part_of(ReaderConfig))
    ReaderConfig.from_dict(kafka)
    others = {name: value for name, value in named.items() if name not in kafka}
    ProducerConfig.from_dict({**others, "bootstrap.servers": kafka["bootstrap.servers"]})
    return kafka


def _partitions(promised: Mapping[int, Digest], found: Mapping[int, Digest]) -> tuple[PartitionAudit, ...]:
    rows = []
    for partition in sorted({*promised, *found}):
        one, other = promised.get(partition, _NOTHING), found.get(partition, _NOTHING)
        rows.append(PartitionAudit(partition, one.count, other.count, one.bytes, other.bytes, one.same_rows(other)))
    return tuple(rows)
