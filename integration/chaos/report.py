"""The figures as text. `python -m integration.chaos.report` writes results/results.md from the stored results."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from integration.chaos.modes import CLIENTS, DOOMED, MAIN, MODES, SOLO

__all__ = ["RESULTS", "evidence", "file_name", "keep", "main", "table", "write"]

RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = RESULTS / "results.md"

Figures = Mapping[str, Any]

_FLAWS: Final = {
    "lost": "**lost**: acknowledged, not in the log",
    "duplicated": "**duplicated**",
    "out of order": "**out of order**",
    "not sent, but stored": "**NotSent, but in the log**",
    "rejected, but stored": "**Rejected, but in the log**",
    "refused, but stored": "**the call raised, but in the log**",
    "hung": "**hung**: no outcome 15 s after the deadline",
    "late": "**late**: outcome later than the deadline + 1.5 s of the process's own time",
    "misplaced": "**misplaced**: not at the offset that was told",
    "told twice": "**told twice**",
    "found elsewhere": "**resolved: not at the offset that was found**",
    "found nowhere, but stored": "**resolved: found in no log, but there**",
    "not found out": "**resolved: still unknown, though a later record was delivered**",
    "invented": "**invented**: in the log, never sent",
}
_FLAWS_OF_RESOLVING: Final = frozenset({"found elsewhere", "found nowhere, but stored", "not found out"})


def table(results: Sequence[Figures]) -> list[str]:
    """Lines of Markdown: a column per run, a line per figure."""
    rows: list[list[str]] = [["records", *(_title(found) for found in results)]]
    rows.append(["---", *("---:" for _ in results)])
    rows.append(["sent", *(f"{found['sent']:,}" for found in results)])
    for name, title in _OUTCOMES.items():
        if any(found["told"].get(name) for found in results) or name == "delivered":
            rows.append([title, *(_outcome(found, name) for found in results)])
    rows.append(["not delivered, but for the deleted topic", *(_not_delivered(found) for found in results)])
    for name, title in _FLAWS.items():
        rows.append([title, *(_flaw(found, name) for found in results)])
    rows.append(["unknown or failed, and in the log", *(f"{found['stored_unknown']:,}" for found in results)])
    rows.append(["slowest outcome, s", *(f"{found['slowest_s']:.2f}" for found in results)])
    rows.append(["longest absence of the sending loop, s", *(f"{found['loop_gap_s']:.2f}" for found in results)])
    for topic, title in _STALLS.items():
        rows.append([title, *(_stall(found, topic) for found in results)])
    rows += _rows_of("resolved", _RESOLVED, results)
    rows += _rows_of("frozen", _FROZEN, results)
    return [f"| {' | '.join(row)} |" for row in rows]


def _rows_of(part: str, titles: Mapping[str, str], results: Sequence[Figures]) -> list[list[str]]:
    """Rows of figures that only some runs have."""
    if not any(found.get(part) for found in results):
        return []
    return [
        [title, *(f"{found[part][name]:,}" if found.get(part) else "-" for found in results)]
        for name, title in titles.items()
    ]


_RESOLVED: Final = {
    "unknown": "unknown, and given to `resolve()`",
    "stored": "of these found stored",
    "absent": "of these found in no log",
    "second": "of both, after a last record to their partition only",
    "open_later": "**of these still unknown, with a later record delivered**",
    "open_idle": "of these still unknown, without one",
    "open_other": "of these still unknown, for another reason",
    "p50_s": "from the unknown outcome to the answer, p50, s",
    "p99_s": "from the unknown outcome to the answer, p99, s",
    "max_s": "from the unknown outcome to the answer, the longest, s",
    "passes": "passes over a log for that",
    "bytes": "bytes of the batches that they went through",
    "bytes_max": "bytes of the longest pass",
}
_FROZEN: Final = {
    "stuck": "of the frozen broker alone, deadline before the thaw",
    "stuck_not_sent": "of these NotSent",
    "stuck_unknown": "of these unknown or failed",
    "unknown_until_s": "the last of these was sent after the freeze, s",
    "slowest_stuck_s": "slowest of their outcomes, s",
    "after_thaw": "sent after the thaw",
    "failed_after_thaw": "**of these not delivered**",
}
_OUTCOMES: Final = {
    "delivered": "acknowledged",
    "not sent": "NotSent",
    "unknown": "UnknownOutcome",
    "rejected": "Rejected",
    "failed": "failed, stored or not",
    "refused": "the call raised",
}
_STALLS: Final = {
    SOLO: "longest stall of a healthy partition, replication 1, s",
    MAIN: "longest stall of a healthy partition, replication 3, s",
}


def _title(found: Figures) -> str:
    return f"{found['client']}, {found['mode']}, {found['kafka']}"


def _outcome(found: Figures, name: str) -> str:
    if name in ("not sent", "unknown", "rejected") and found["client"] != "aioprod":
        return "-"
    return f"{found['told'].get(name, 0):,}"


def _flaw(found: Figures, name: str) -> str:
    if name in _FLAWS_OF_RESOLVING and not found.get("resolved"):
        return "-"
    return f"{found['flaws'].get(name, 0):,}"


def _not_delivered(found: Figures) -> str:
    """In the normal mode only a topic that is gone may make a record fail."""
    if "not_delivered" not in found:
        return "-"
    return f"{sum(count for topic, count in found['not_delivered'].items() if topic != DOOMED):,}"


def _stall(found: Figures, topic: str) -> str:
    return f"{found['stall_s'][topic]:.2f}" if topic in found["stall_s"] else "-"


def evidence(found: Figures) -> list[str]:
    """What stands behind the figures of one run: faults, errors that were told, examples of flaws."""
    lines = [f"{_title(found)}, {found['minutes']} minutes, seed {found['seed']}:"]
    lines.append("  faults: " + ", ".join(f"{count} x {name}" for name, count in found["faults"].items()))
    if found["left_out"]:
        lines.append(f"  left out on this machine: {', '.join(found['left_out'])}")
    lines += [f"  {count:,} x {error}" for error, count in found["errors"].items()]
    if found.get("resolved"):
        lines += [f"  {count:,} x still unknown: {why}" for why, count in found["resolved"]["reasons"].items()]
    for name, examples in found["examples"].items():
        lines += [f"  {name}: {example}" for example in examples]
    return lines


def file_name(found: Figures) -> str:
    """The file in which a run's figures are kept; a later run of the same takes its place."""
    return f"{found['client']}-{found['kafka']}-{found['mode']}.json"


def keep(found: Figures) -> None:
    """Write the figures of a run."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / file_name(found)).write_text(json.dumps(found, indent=1) + "\n")


def write() -> None:
    """Make the page of all that is kept."""
    kept = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    kept.sort(key=lambda found: (CLIENTS.index(found["client"]), found["kafka"], list(MODES).index(found["mode"])))
    PAGE.write_text("\n".join(page(kept)) + "\n")


def page(kept: Sequence[Figures]) -> list[str]:
    """Lines of Markdown."""
    lines = [*_INTRODUCTION, ""]
    for mode in MODES.values():
        of_mode = [found for found in kept if found["mode"] == mode.name]
        if of_mode:
            lines += [f"## {mode.name}: {mode.title}", "", *table(of_mode), "", *_circumstances(of_mode), ""]
    return lines[:-1]


_INTRODUCTION: Final = (
    "# Chaos",
    "",
    "Made by `make chaos WRITE=1`. Three real brokers, replication 3, `min.insync.replicas=2`, each behind a proxy; a",
    "client in a process of its own sends about 2,000 numbered records a second to 17 partitions without a pause.",
    "Then all is read back by confluent-kafka and compared, record by record, with what the client had said. A",
    "healthy partition is one whose leader stayed where it was and was not touched while another broker was dead or",
    "frozen. Partitions with replication 1 have a producer of their own, so a stall there is the client's fault, or",
    "a lack of CPU (the longest pause of the client's loop is shown). With replication 3 a leader waits for the lost",
    "replica until the cluster declares that broker dead (4 s here, more where it was the controller), and with two",
    "brokers frozen nothing can be acknowledged at all. The other clients are idempotent too, with the same",
    "deadlines as far as they have them: aiokafka has none, and retries for ever, so that what is late there breaks",
    "no promise; it also sends less, as its calls wait while a partition is full. Of a deleted topic records fail,",
    "and nothing is read back. For each record whose outcome is unknown aioprod's `resolve()` is called at once, and,",
    "where the record stays unknown, again at the end, after one more record to the partition. Its results are",
    "compared with the log, too. Its bytes are those of the batches that it went through: a response may hold more.",
    "`-` is what a client, or an older run, does not show.",
)


def _circumstances(results: Iterable[Figures]) -> list[str]:
    lines = []
    for found in results:
        place = found["environment"]
        faults = ", ".join(f"{count} x {name}" for name, count in found["faults"].items())
        versions = ", ".join(f"{name} {value}" for name, value in found["versions"].items())
        settings = ", ".join(f"{name}={value}" for name, value in found["settings"].items())
        left_out = f"; left out: {', '.join(found['left_out'])}" if found["left_out"] else ""
        lines.append(
            f"- {_title(found)}: {found['minutes']:.1f} minutes on {place['date']}, commit {place['commit']}, "
            f"load {place['load']} on {place['machine']}, "
            f"{versions}; {settings}; {faults}{left_out}."
        )
    return lines


def main() -> int:
    """Make the page anew."""
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
