"""The report of a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aioprod._words import bytes_of
from aioprod.spark.loading.dry import DryRun

__all__ = ["LoadReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What was written by one call of `load`."""

    run_id: str
    topic: str
    partitions: int
    chunks: int
    chunks_of: str
    done: int = 0
    skipped: int = 0
    """Chunks that earlier calls had committed."""
    rows: int = 0
    """Of this call."""
    bytes: int | None = None
    """Of this call: keys and values; None without a manifest."""
    all_rows: int | None = None
    """Of the whole run; None without a manifest."""
    all_bytes: int | None = None
    """Of the whole run; None without a manifest."""
    seconds: float = 0.0
    attempts: int = 0
    reruns: tuple[str, ...] = ()
    """Why attempts were lost and made again."""
    offsets: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """The first and the last offset of this call by partition, or of the whole run if it has a manifest. Markers of
    transactions lie between."""
    manifest: str | None = None
    dry_run: DryRun | None = None
    """What was found, if nothing was to be sent."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run_id": self.run_id,
            "topic": self.topic,
            "partitions": self.partitions,
            "rows": self.rows,
            "bytes": self.bytes,
            "all_rows": self.all_rows,
            "all_bytes": self.all_bytes,
            "seconds": round(self.seconds, 3),
            "chunks": {"count": self.chunks, "of": self.chunks_of, "done": self.done, "skipped": self.skipped},
            "attempts": self.attempts,
            "reruns": list(self.reruns),
            "offsets": {str(place): {"first": one[0], "last": one[1]} for place, one in sorted(self.offsets.items())},
            "manifest": self.manifest,
            "dry_run": None if self.dry_run is None else self.dry_run.to_dict(),
        }

    def __str__(self) -> str:
        """For people, in a few lines."""
        if self.dry_run is not None:
            return f"Nothing was sent to topic {self.topic!r}: this was a dry run.\n{self.dry_run}"
        size = "" if self.bytes is None else f" ({bytes_of(self.bytes)})"
        what = f"{self.rows:,} rows{size} written to topic {self.topic!r} in {self.seconds:.1f} s"
        lines = [f"Run {self.run_id}: {what}, {self.done} of {self.chunks} chunks."]
        if self.skipped:
            all_rows = "" if self.all_rows is None else f" The run has {self.all_rows:,} rows in all."
            lines.append(f"{self.skipped} chunks had been committed before.{all_rows}")
        if self.reruns:
            lines.append(f"{len(self.reruns)} attempts were lost and made again; the last one: {self.reruns[-1]}")
        if self.manifest is not None:
            lines.append(f"Manifest: {self.manifest}")
        return "\n".join(lines)
