"""What a load has promised to be in Kafka: which run, of what, and what each of its chunks came down to.

A folder on any file system: `manifest.json`, written again after each chunk, and `receipts/chunk=N/`, Parquet files
with one row for each record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self

from aioprod.errors import ConfigError, UsageError
from aioprod.spark.digest import Digest, digests, joined
from aioprod.spark.inputs import quiet, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from aioprod.spark.folder import Folder

__all__ = ["FILE", "Manifest", "Plan", "all_receipts", "check_rows", "manifest_of", "read_receipts", "receipts_of"]

FILE: Final = "manifest.json"
_VERSION: Final = 1
_RECEIPT_COLUMNS: Final = "partition int, offset long, key binary, hash long, bytes int"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What decides which record is in which chunk and what is in it: two runs with the same plan write the same."""

    topic: str
    partitions: int
    partitioner: str
    value: str
    key: str | None = None
    headers: str | None = None
    timestamp: str | None = None
    order_by: str | None = None
    chunks: int = 1
    chunks_of: str = "rows"
    """`files`, or `rows` where a chunk is chosen by a hash of the record."""
    input: str | None = None
    """A hash of the names and sizes of all input files, in their order; None where there are none to be had."""
    rows: int | None = None
    """With chunks of rows, how many there are, counted before the first chunk."""
    hash_xor: int | None = None
    """With chunks of rows, the exclusive or of their hashes: each chunk must come to the same rows."""

    @property
    def digest(self) -> str:
        """A name for it: 32 hexadecimal digits."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:32]

    def differences(self, other: Plan) -> list[str]:
        """What of it is another than in `other`."""
        return [one.name for one in fields(self) if getattr(self, one.name) != getattr(other, one.name)]

    @classmethod
    def from_dict(cls, given: object) -> Self:
        known = {one.name: one for one in fields(cls)}
        if not isinstance(given, dict) or set(given) != set(known):
            raise ConfigError("A manifest's plan must have " + ", ".join(known) + ".")
        for name, value in given.items():
            kind = int if "int" in str(known[name].type) else str
            if type(value) is not kind and not (value is None and "None" in str(known[name].type)):
                raise ConfigError(f"A manifest's plan has {value!r} for {name}.")
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a run has committed so far."""

    run_id: str
    cluster_id: str | None
    starts: tuple[int, ...]
    """Where each partition ended before the run."""
    plan: Plan
    chunks: Mapping[int, Mapping[int, Digest]]
    """The committed ones by number, each with the digest of every partition that it wrote to."""
    topic_id: str | None = None
    """Of the topic of the plan, where the cluster has ids: another one after it was created again."""

    @property
    def owner(self) -> str:
        """Whose marker it is."""
        return f"{self.run_id} {self.plan.digest}"

    @property
    def is_complete(self) -> bool:
        return len(self.chunks) == self.plan.chunks

    def with_chunk(self, number: int, parts: Mapping[int, Digest]) -> Self:
        return replace(self, chunks={**self.chunks, number: dict(parts)})

    def promised(self) -> dict[int, Digest]:
        """The digest of each partition over all chunks."""
        parts = [part for number in sorted(self.chunks) for part in self.chunks[number].items()]
        whole = joined(parts)
        if whole is None:
            raise ConfigError(
                f"The chunks of run {self.run_id!r} overlap in its manifest.", hint="The manifest was changed."
            )
        return whole

    def check_sum(self) -> None:
        """Raise UsageError for a run that is complete, and yet not of the rows that were counted before it."""
        if not self.is_complete or self.plan.rows is None:
            return
        parts = [part for parts in self.chunks.values() for part in parts.values()]
        rows, hash_xor = sum(part.count for part in parts), 0
        for part in parts:
            hash_xor ^= part.hash_xor
        check_rows(self.run_id, rows, self.plan.rows, is_same=hash_xor == self.plan.hash_xor)

    def to_json(self) -> str:
        """A text of sorted names, of version 1."""
        plan = asdict(self.plan)
        chunks = {
            str(number): {str(partition): part.to_dict() for partition, part in sorted(parts.items())}
            for number, parts in sorted(self.chunks.items())
        }
        head: dict[str, Any] = {"version": _VERSION, "run_id": self.run_id, "topic": self.plan.topic}
        head |= {"topic_id": self.topic_id, "cluster_id": self.cluster_id, "partition_count": self.plan.partitions}
        head |= {"partitioner": self.plan.partitioner, "starts": list(self.starts), "plan": plan, "chunks": chunks}
        return json.dumps(head, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ConfigError for what is not a manifest of this version."""
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"The manifest is not JSON: {error}.") from error
        if not isinstance(given, dict) or given.get("version") != _VERSION:
            raise ConfigError(f"The manifest is not one of version {_VERSION}, which this aioprod knows.")
        run_id, cluster_id, starts, chunks = (given.get(name) for name in ("run_id", "cluster_id", "starts", "chunks"))
        topic_id = given.get("topic_id")
        plan = Plan.from_dict(given.get("plan"))
        if not (
            isinstance(run_id, str)
            and (cluster_id is None or isinstance(cluster_id, str))
            and (topic_id is None or isinstance(topic_id, str))
            and isinstance(starts, list)
            and all(type(one) is int for one in starts)
            and len(starts) == plan.partitions
            and isinstance(chunks, dict)
        ):
            raise ConfigError("The manifest lacks its run_id, starts or chunks, or they are not what they should be.")
        return cls(
            run_id=run_id,
            cluster_id=cluster_id,
            topic_id=topic_id,
            starts=tuple(starts),
            plan=plan,
            chunks={_number(key, plan.chunks): _parts(parts, plan.partitions) for key, parts in chunks.items()},
        )


def manifest_of(folder: Folder, run_id: str | None, *, resume: bool) -> Manifest | None:
    """The manifest of the run to continue, None where there is none. `run_id` None stands for a new one.

    Raises UsageError for that of another run, and for one of this run that is not to be resumed.
    """
    text = folder.read(FILE)
    if text is None:
        return None
    found = Manifest.from_json(text)
    if found.run_id != run_id:
        other = "a new run" if run_id is None else repr(run_id)
        raise UsageError(
            f"The folder {folder.path!r} holds the manifest of run {found.run_id!r}, not of {other}.",
            hint="Each run needs a folder of its own.",
        )
    if not resume:
        raise UsageError(
            f"The folder {folder.path!r} holds a manifest of run {found.run_id!r} already.",
            hint="resume=True (--resume) continues that run; for another load give another run id and folder.",
        )
    return found


def check_rows(run_id: str, written: int, counted: int, *, is_same: bool = True) -> None:
    """Raise UsageError where all chunks of rows are not the rows that were counted before the first one."""
    if written == counted and is_same:
        return
    others = f"{written:,} rows" if written != counted else "as many rows, but others"
    raise UsageError(
        f"The chunks of run {run_id!r} are not its input: {counted:,} rows were counted before it, {others} were "
        "written.",
        hint="The input was another one for each chunk: rows are lost or doubled in the topic. Write the input to "
        "files first, or give chunks=1, and load it into another topic.",
    )


def _number(text: str, below: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= below:
        raise ConfigError(f"The manifest has {text!r} where a number from 0 to {below - 1} must be.")
    return int(text)


def _parts(given: object, count: int) -> dict[int, Digest]:
    if not isinstance(given, dict):
        raise ConfigError("The manifest has a chunk that is none.")
    return {_number(key, count): Digest.from_dict(part) for key, part in given.items()}


def receipts_of(folder: str, chunk: int) -> str:
    """Where the receipts of a chunk are."""
    return f"{folder}/receipts/chunk={chunk}"


def read_receipts(spark: SparkSession, folder: str, chunk: int) -> dict[int, Digest]:
    """What a chunk came down to, of its receipts; raises ConfigError where there are none."""
    return digests(_parquet(spark, receipts_of(folder, chunk), _RECEIPT_COLUMNS))


def all_receipts(spark: SparkSession, folder: str) -> DataFrame:
    """The receipts of all chunks: `_RECEIPT_COLUMNS` and chunk."""
    return _parquet(spark, f"{folder}/receipts", f"{_RECEIPT_COLUMNS}, chunk int")


def _parquet(spark: SparkSession, path: str, columns: str) -> DataFrame:
    try:
        with spark_errors(f"There are no receipts in {path!r}"), quiet():
            return spark.read.schema(columns).parquet(path)
    except ConfigError as error:
        error.hint = "They are beside manifest.json: was the folder moved without them, or is it of another run?"
        raise
