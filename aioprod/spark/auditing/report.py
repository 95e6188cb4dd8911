"""What an audit has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["KINDS", "AuditReport", "Finding", "PartitionAudit"]

KINDS: Final = ("lost", "duplicated", "extra", "misplaced", "out_of_order")

_KEY_SHOWN: Final = 80


def key_text(key: bytes | None) -> str | None:
    """A key as reports show it: text where it is UTF-8, else hexadecimal; the beginning of a long one."""
    if key is None:
        return None
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = f"0x{key.hex()}"
    return text if len(text) <= _KEY_SHOWN else f"{text[:_KEY_SHOWN]}..."


@dataclass(frozen=True, slots=True)
class Finding:
    """One row that is wrong."""

    kind: str
    key: str | None
    partition: int
    """Where the row is; where it was written, if it is lost."""
    offset: int
    """In that partition."""
    promised_partition: int | None = None
    """Where a misplaced row should be."""
    after_offset: int | None = None
    """Where the row is that one out of order should follow."""

    def __str__(self) -> str:
        key = "no key" if self.key is None else f"key {self.key!r}"
        where = f"partition {self.partition}, offset {self.offset}"
        match self.kind:
            case "lost":
                return f"lost: {key}, which was written to {where}"
            case "misplaced":
                return f"in the wrong partition: {key} at {where}, promised in partition {self.promised_partition}"
            case "out_of_order":
                return f"out of order: {key} at {where}, promised after the row at offset {self.after_offset}"
            case "duplicated":
                return f"duplicated: {key} once more at {where}"
            case _:
                return f"extra: {key} at {where}, which the manifest does not know"


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """What one partition should hold, and what it holds."""

    partition: int
    promised: int
    found: int
    promised_bytes: int
    found_bytes: int
    is_same: bool
    """Whether the rows that were compared are those that were promised, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What `audit` found."""

    run_id: str
    topic: str
    isolation: str
    partitions: tuple[PartitionAudit, ...]
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    """How many findings there are of each kind."""
    findings: tuple[Finding, ...] = ()
    """The first of each kind."""
    changed: tuple[int, ...] = ()
    """Partitions whose receipts are not those that the manifest was made of."""
    was_full: bool = False
    """Whether each row was compared with its receipt."""
    others: bool = False
    """Whether rows that the manifest does not know are no error."""
    seconds: float = 0.0

    @property
    def promised(self) -> int:
        return sum(one.promised for one in self.partitions)

    @property
    def found(self) -> int:
        return sum(one.found for one in self.partitions)

    @property
    def is_clean(self) -> bool:
        """All that was promised is there, once, in its partition and in order."""
        return self.unexplained is None and not any(
            count for kind, count in self.counts.items() if not (kind == "extra" and self.others)
        )

    @property
    def unexplained(self) -> str | None:
        """In one sentence, why a difference can't be shown row by row; None where it can."""
        if not self.changed:
            return None
        return (
            f"The receipts of partition {', '.join(map(str, self.changed))} are not those that the manifest was made "
            "of: they were lost or changed, and what differs can't be shown."
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "clean": self.is_clean,
            "run_id": self.run_id,
            "topic": self.topic,
            "isolation": self.isolation,
            "promised": self.promised,
            "found": self.found,
            **{kind: self.counts[kind] for kind in KINDS},
            "unexplained": self.unexplained,
            "others": self.others,
            "full": self.was_full,
            "seconds": round(self.seconds, 3),
            "partitions": [
                {
                    "partition": one.partition,
                    "promised": one.promised,
                    "found": one.found,
                    "promised_bytes": one.promised_bytes,
                    "found_bytes": one.found_bytes,
                    "same": one.is_same,
                }
                for one in self.partitions
            ],
            "findings": [
                {
                    "kind": one.kind,
                    "key": one.key,
                    "partition": one.partition,
                    "offset": one.offset,
                    "promised_partition": one.promised_partition,
                    "after_offset": one.after_offset,
                }
                for one in self.findings
            ],
        }

    def __str__(self) -> str:
        """For people, in some lines."""
        how = f"{self.isolation}, {'each row compared' if self.was_full else 'by digests'}, {self.seconds:.1f} s"
        rows = f"{self.promised:,} rows promised, {self.found:,} found"
        lines = [f"Run {self.run_id} in topic {self.topic!r}: {rows} ({how}).", self.verdict]
        lines += [f"  {finding}" for finding in self.findings]
        shown = len(self.findings)
        total = sum(self.counts.values())
        if total > shown:
            lines.append(f"  ... and {total - shown:,} more")
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """In one sentence."""
        names = {"misplaced": "in the wrong partition", "out_of_order": "out of order"}
        found = ", ".join(f"{count:,} {names.get(kind, kind)}" for kind, count in self.counts.items() if count)
        if self.unexplained is not None:
            return f"Not clean: {found}{'; ' * bool(found)}{self.unexplained[0].lower()}{self.unexplained[1:]}"
        if not self.is_clean:
            return f"Not clean: {found}."
        if found:
            return f"Clean: all that was promised is there, once, and in order; {found}, of others."
        return "Clean: all that was promised is there, once, and in order; nothing else is."
