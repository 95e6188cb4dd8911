"""`load` itself: all checks, the plan, and one transaction for each chunk."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError, UsageError
from aioprod.routing.columns import rule_of
from aioprod.spark.digest import Digest, total
from aioprod.spark.folder import Folder, folder_at
from aioprod.spark.loading.amounts import bytes_s
from aioprod.spark.loading.chunks import Chunks, check_repeatable, chunks_for, counted, inputs_of
from aioprod.spark.loading.cluster import check_remembered, check_unused, topic_state
from aioprod.spark.loading.dry import examine
from aioprod.spark.loading.expressions import ORDER, Expression, Records
from aioprod.spark.loading.progress import Progress
from aioprod.spark.loading.report import LoadReport
from aioprod.spark.manifest import FILE, Manifest, Plan, check_rows, manifest_of, read_receipts, receipts_of
from aioprod.spark.partitioning import spreading
from aioprod.spark.sink.written import Written
from aioprod.spark.transactions import Transactions
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.slots import check_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["checked_partitioner", "load", "once_settings", "run_id_of", "transactional_id_of"]

_RUN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


def load(
    df: DataFrame,
    *,
    bootstrap_servers: str,
    topic: str,
    value: Expression,
    key: Expression | None = None,
    headers: Mapping[str, Expression] | Expression | None = None,
    timestamp: Expression | None = None,
    partitioner: str = "murmur2",
    rate: str | float | None = None,
    chunks: int | None = None,
    run_id: str | None = None,
    manifest: str | None = None,
    dry_run: bool = False,
    resume: bool = False,
    order_by: Expression | None = None,
    tasks: int | None = None,
    progress: bool = True,
    when_marker_is_missing: str = "refuse",
    **options: Any,
) -> LoadReport:
    """Write a data frame to a topic, each of its chunks in one transaction, exactly once, and report.

    `value`, `key` (string or binary), `timestamp` and those of `headers` (by header name; or one for the whole array)
    are Spark SQL expressions or Columns of `df`; `order_by` sorts the rows of each partition within a chunk. `rate` is
    for all tasks together, in bytes per second or as "50MB/s". `chunks`: how many; sets of input files where there are
    as many, else parts by a hash of the record, each of which computes all of the input. None: by size. Rows go to the
    partitions where aioprod's producer sends them with `partitioner`; where no row has a key, murmur2 and crc32 spread
    them too.

    `run_id` names the run (None: one is made). A run that was interrupted, however and wherever, continues with
    `resume=True` and the same arguments: chunks that are committed are skipped. Another plan (expressions, partitioner,
    chunks, input files, number of partitions) raises. `manifest`: a folder for what `audit` compares the topic
    with. `dry_run` sends nothing, and says what would be sent. `tasks`: how many write at once; None: all slots.
    `options` are further settings of the producer, by Java's names or ours.

    Raises ConfigError, UsageError (a run id that was used before, a manifest of another run) and UnknownTopicError
    before any task runs; for a row that can't be sent an error that names its key, with nothing of its chunk visible;
    and what the computation of the data frame raises.
    """
    _check_frame(df)
    limit = bytes_s(rate)
    name = run_id_of(run_id, topic, resume)
    settings = once_settings(name, bootstrap_servers, topic, when_marker_is_missing, options)
    rule = checked_partitioner(partitioner, key)
    records = Records.of(df, topic=topic, value=value, key=key, headers=headers, timestamp=timestamp, order_by=order_by)
    chunked, plan, begun = _planned(df, records, settings, rule, chunks, name, dry_run=dry_run)
    if dry_run:
        return _dry(records.select(df), name, plan, settings)
    said = Progress(chunked.count, on=progress)
    if run_id is None:
        said.say(f"run id: {name}")
    run = _Run(df, records, chunked, settings, limit, said)
    return run.go(begun, None if manifest is None else folder_at(df.sparkSession, manifest), resume, tasks)


def _check_frame(df: DataFrame) -> None:
    check_session(df.sparkSession)
    if df.isStreaming:
        raise UsageError("A stream can't be loaded: it has no end.", hint="aioprod.spark.exactly_once writes streams.")


def _planned(
    df: DataFrame,
    records: Records,
    settings: OnceSettings,
    partitioner: str,
    chunks: int | None,
    run_id: str,
    *,
    dry_run: bool,
) -> tuple[Chunks, Plan, Manifest]:
    """The chunks of the input, the plan, and the manifest of a run that has written nothing yet."""
    inputs = inputs_of(df)
    chunked = chunks_for(inputs, chunks)
    compared = records.compared(df)
    check_repeatable(compared, chunked, (records.texts["key"], records.texts["value"]))
    state = topic_state(settings.kafka.session(), settings.marker.topic)
    rows, hash_xor = (None, None) if dry_run else counted(compared, chunked)
    plan = Plan(
        topic=settings.marker.topic,
        partitions=len(state.ends),
        partitioner=partitioner,
        value=str(records.texts["value"]),
        key=records.texts["key"],
        headers=records.texts["headers"],
        timestamp=records.texts["timestamp"],
        order_by=records.texts["order_by"],
        chunks=chunked.count,
        chunks_of=chunked.of,
        input=inputs.digest,
        rows=rows,
        hash_xor=hash_xor,
    )
    manifest = Manifest(
        run_id=run_id,
        cluster_id=state.cluster_id,
        topic_id=state.topic_id,
        starts=state.ends,
        plan=plan,
        chunks={},
    )
    return chunked, plan, manifest


def once_settings(
    run_id: str, bootstrap_servers: str, topic: str, when_marker_is_missing: str, options: Mapping[str, Any]
) -> OnceSettings:
    """How a run writes; raises ConfigError."""
    return OnceSettings.of(
        {"bootstrap.servers": bootstrap_servers, **options},
        transactional_id=transactional_id_of(run_id),
        topic=topic,
        when_marker_is_missing=when_marker_is_missing,
    )


def transactional_id_of(run_id: str) -> str:
    """Under which a run writes."""
    return f"aioprod-load.{run_id}"


def _made_up(topic: str) -> str:
    return f"{topic[:100]}-{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"


def run_id_of(run_id: str | None, topic: str, resume: bool) -> str:
    """The run id to use, one that is made up where none is given; raises ConfigError."""
    if run_id is not None:
        return _checked_run_id(run_id)
    if resume:
        raise ConfigError("resume needs the run id of the run to continue.")
    return _made_up(topic)


def _checked_run_id(run_id: object) -> str:
    if not isinstance(run_id, str) or _RUN_ID.fullmatch(run_id) is None:
        raise ConfigError(
            f"The run id {run_id!r} can't be used: it must be 1 to 200 letters, digits, dots, underscores and hyphens."
        )
    return run_id


def checked_partitioner(name: str, key: object) -> str:
    """The partitioner to use; where no row has a key, one that does not send all of them to one partition."""
    rule_of(name)
    return spreading(name) if key is None else name


def _dry(records: DataFrame, run_id: str, plan: Plan, settings: OnceSettings) -> LoadReport:
    started = time.monotonic()
    limit = ProducerConfig.from_dict(settings.kafka).max_request_size
    found = examine(records, topic=plan.topic, partitions=plan.partitions, partitioner=plan.partitioner, limit=limit)
    return LoadReport(
        run_id=run_id,
        topic=plan.topic,
        partitions=plan.partitions,
        chunks=plan.chunks,
        chunks_of=plan.chunks_of,
        seconds=time.monotonic() - started,
        dry_run=found,
    )


def _opened(folder: Folder, begun: Manifest, resume: bool) -> Manifest:
    """The manifest that is in the folder if it is of this run and this plan, else `begun` where there is none.

    Raises UsageError for that of another run, and for one of this run that is not to be resumed.
    """
    found = manifest_of(folder, begun.run_id, resume=resume)
    if found is None:
        return begun
    if None not in (found.cluster_id, begun.cluster_id) and found.cluster_id != begun.cluster_id:
        raise UsageError(
            f"Run {found.run_id!r} was begun on the cluster {found.cluster_id!r}; this is {begun.cluster_id!r}."
        )
    if None not in (found.topic_id, begun.topic_id) and found.topic_id != begun.topic_id:
        raise UsageError(
            f"Run {found.run_id!r} can't continue: topic {found.plan.topic!r} was deleted and created again since.",
            hint="What it wrote is gone with the topic. Load again, under another run id and into another folder.",
        )
    differences = found.plan.differences(begun.plan)
    if differences:
        changes = ", ".join(f"{name} {_short(found, name)} -> {_short(begun, name)}" for name in differences)
        raise UsageError(
            f"Run {found.run_id!r} can't continue with another plan than it began with: {changes}.",
            hint="Give the same arguments and input; or load again, under another run id, into another topic.",
        )
    return found


_SHOWN: Final = 60


def _short(manifest: Manifest, name: str) -> str:
    text = repr(getattr(manifest.plan, name))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(frozen=True)
class _Run:
    """All that is known before the first chunk. `bytes_s` is the rate of all tasks."""

    df: DataFrame
    records: Records
    chunked: Chunks
    settings: OnceSettings
    bytes_s: float | None
    progress: Progress

    def go(self, begun: Manifest, folder: Folder | None, resume: bool, tasks: int | None) -> LoadReport:
        """Begin the run, or continue it, and write what is missing."""
        transactions = Transactions(
            self.settings.kafka,
            transactional_id=self.settings.transactional_id,
            owner=begun.owner,
            topic=begun.plan.topic,
            partitioner=begun.plan.partitioner,
            order_by=ORDER if ORDER in self.records.columns else None,
            tasks=tasks,
            when_marker_is_missing=self.settings.policy.value,
        )
        manifest = begun if folder is None else _opened(folder, begun, resume)
        if not resume:
            check_unused(self.settings, begun.run_id)
        elif folder is None:
            check_remembered(self.settings, begun.run_id)
        if folder is not None:
            folder.write(FILE, manifest.to_json())
        started = time.monotonic()
        tally = _Tally()
        with transactions, self.progress:
            for number in range(self.chunked.count):
                if number in manifest.chunks:
                    tally.skipped += 1
                    self.progress.skipped(number)
                else:
                    manifest = self._write(transactions, number, manifest, folder, tally)
        manifest.check_sum()
        if not tally.skipped and manifest.plan.rows is not None:
            check_rows(manifest.run_id, tally.rows, manifest.plan.rows)
        return self._report(manifest, folder, tally, transactions, time.monotonic() - started)

    def _write(
        self, transactions: Transactions, number: int, manifest: Manifest, folder: Folder | None, tally: _Tally
    ) -> Manifest:
        """Write a chunk, unless its marker says that it was; returns the manifest with it."""
        receipts = None if folder is None else receipts_of(folder.path, number)
        done = transactions.write(self._chunk(number), number, receipts=receipts, bytes_s=self.bytes_s)
        parts = size = None
        if folder is not None:
            parts = read_receipts(self.df.sparkSession, folder.path, number)
            size = total(parts)[1]
            _check_same(parts, done, receipts)
            manifest = manifest.with_chunk(number, parts)
            folder.write(FILE, manifest.to_json())
        tally.add(done, parts)
        if done is None:
            self.progress.skipped(number)
        else:
            self.progress.written(number, sum(one.count for one in done), size)
        return manifest

    def _chunk(self, number: int) -> DataFrame:
        return self.chunked.after(self.records.select(self.chunked.before(self.df, number)), number)

    def _report(
        self, manifest: Manifest, folder: Folder | None, tally: _Tally, transactions: Transactions, seconds: float
    ) -> LoadReport:
        all_rows = all_bytes = None
        offsets = tally.offsets
        if folder is not None:
            promised = manifest.promised()
            all_rows, all_bytes = total(promised)
            offsets = {place: (part.first, part.last) for place, part in promised.items()}
        return LoadReport(
            run_id=manifest.run_id,
            topic=manifest.plan.topic,
            partitions=manifest.plan.partitions,
            chunks=self.chunked.count,
            chunks_of=self.chunked.of,
            done=tally.done,
            skipped=tally.skipped,
            rows=tally.rows,
            bytes=None if folder is None else tally.bytes,
            all_rows=all_rows,
            all_bytes=all_bytes,
            seconds=seconds,
            attempts=transactions.tally.committed + transactions.tally.rerun,
            reruns=tuple(map(_brief, transactions.tally.reasons)),
            offsets=offsets,
            manifest=None if folder is None else folder.path,
        )


_REASON_SHOWN: Final = 300


def _brief(reason: str) -> str:
    """Why an attempt was lost, without the stack of Spark's JVM."""
    first = reason.strip().partition("\n")[0]
    return first if len(first) <= _REASON_SHOWN else f"{first[:_REASON_SHOWN]}..."


class _Tally:
    """What this call has written."""

    def __init__(self) -> None:
        self.done = self.skipped = self.rows = self.bytes = 0
        self.offsets: dict[int, tuple[int, int]] = {}

    def add(self, done: tuple[Written, ...] | None, parts: Mapping[int, Digest] | None) -> None:
        if done is None:
            self.skipped += 1
            return
        self.done += 1
        self.rows += sum(one.count for one in done)
        self.bytes += 0 if parts is None else total(parts)[1]
        for one in done:
            first = self.offsets.get(one.partition, (one.first, one.last))[0]
            self.offsets[one.partition] = (first, one.last)


def _check_same(parts: Mapping[int, Digest], done: tuple[Written, ...] | None, receipts: str | None) -> None:
    """Raise UsageError where the receipts of a chunk are not those of what was written just now."""
    if done is None:
        return
    promised = {place: (part.count, part.first, part.last) for place, part in parts.items()}
    if promised != {one.partition: (one.count, one.first, one.last) for one in done}:
        raise UsageError(
            f"The receipts in {receipts!r} are not those of the rows that were written.",
            hint="Does another run use this folder? The rows are in the topic; resume=True reads the receipts again.",
        )
