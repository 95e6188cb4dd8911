"""What is said of a run: a document, a picture and a short table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from aioprod import COMPILED, __version__
from aioprod.console.tables import Part, Table
from integration.soak.picture import picture
from integration.soak.run import Run
from integration.soak.verdict import Check, Sample, calm, checks, warm_up_s

__all__ = ["parts", "verdict", "write"]

_SHOWN: Final = ("rss_mb", "objects", "tasks", "threads", "sockets", "handles")
_LEVEL: Final = 10
"""The samples whose median is shown, as in the verdict."""
_EXAMPLES: Final = "examples of what went wrong"


def verdict(found: Run) -> list[Check]:
    """All checks of a run."""
    flaws = {} if found.ended is None else found.ended["flaws"]
    lines = checks(_all_samples(found), found.faults, flaws, _warm_s(found))
    if found.ended is None:
        lines.insert(0, Check("the run came to its end", False, found.error or "it did not"))
    return lines


def _warm_s(found: Run) -> float:
    """The warm-up of a run that was interrupted is that of a short one."""
    ran = found.samples[-1].at_s / 60 if found.samples else 0.0
    return warm_up_s(min(found.options.minutes, ran))


def _all_samples(found: Run) -> list[Sample]:
    """With the counts at the end, when all outcomes were told; its memory and handles are not those under load."""
    if found.ended is None or not found.samples:
        return found.samples
    last, end = found.samples[-1], found.ended["sample"]
    counts = {name: end[name] for name in ("sent", "acked", "failed", "read", "held")}
    return [*found.samples[:-1], Sample(**(last.to_dict() | counts))]


def document(found: Run) -> dict[str, Any]:
    """Everything, for JSON."""
    lines = verdict(found)
    return {
        "is_fine": all(line.is_fine for line in lines),
        "checks": [line._asdict() for line in lines],
        "minutes": found.options.minutes,
        "rate": found.options.rate,
        "kafka": found.options.kafka,
        "interrupted": found.interrupted,
        "error": found.error,
        "aioprod": __version__,
        "compiled": COMPILED,
        "environment": found.environment,
        "faults": [fault._asdict() for fault in found.faults],
        "ended": found.ended,
        "samples": [sample.to_dict() for sample in found.samples],
    }


def write(found: Run, folder: Path) -> None:
    """Write `report.json` and, if there are samples, `soak.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(document(found), indent=1) + "\n")
    if found.samples:
        last = found.samples[-1]
        title = f"{last.acked:,} records acknowledged in {last.at_s / 60:.0f} minutes, {len(found.faults)} faults"
        drawn = picture(found.samples, found.faults, _warm_s(found), title)
        (folder / "soak.png").write_bytes(drawn)


def parts(found: Run) -> list[Part]:
    """The table of what the process needed, and the verdict."""
    said: list[Part] = []
    if found.samples:
        quiet = calm(found.samples, found.faults, _warm_s(found)) or found.samples
        headers = ("of the process", *(f"at {sample.at_s / 60:.1f} min" for sample in (quiet[0], quiet[-1])))
        said.append(Table("What it needed", _did(found), headers, [_needed(quiet, name) for name in _SHOWN]))
    lines = verdict(found)
    rows: list[tuple[object, ...]] = [("yes" if line.is_fine else "NO", line.what, line.says) for line in lines]
    said.append(Table("Verdict", "", ("", "check", "found"), rows))
    examples = [] if found.ended is None else [text for texts in found.ended["examples"].values() for text in texts]
    if examples:
        said.append("\n".join([f"{_EXAMPLES}:", *examples]))
    return said


def _needed(quiet: Sequence[Sample], name: str) -> tuple[object, ...]:
    """A row: about the first and about the last of these samples."""
    medians = [median(getattr(sample, name) for sample in some) for some in (quiet[:_LEVEL], quiet[-_LEVEL:])]
    return name, *(int(value) if value == int(value) else value for value in medians)


def _did(found: Run) -> str:
    last = _all_samples(found)[-1]
    faults = ", ".join(f"{count} x {name}" for name, count in Counter(each.name for each in found.faults).items())
    known = {} if found.ended is None else found.ended["metrics"]
    renewed = known.get("producer_successful_reauthentication_total", 0)
    errors = {} if found.ended is None else found.ended["errors"]
    return (
        f"{last.sent:,} records sent, {last.acked:,} acknowledged, {last.failed:,} failed, {last.read:,} read; "
        f"{renewed:,.0f} log-ins renewed by a producer; faults: {faults or 'none'}; errors: {errors or 'none'}."
    )
