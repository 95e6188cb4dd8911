"""What became of records whose outcome was unknown, in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import Any

from integration.chaos.ledger import Found, Ledger, Outcome, Place

__all__ = ["last_delivered", "resolved_figures"]


def last_delivered(ledger: Ledger, place: Place) -> int:
    """The number of the last record of a partition that was delivered; -1 where none was."""
    records = ledger.records[place]
    return next((n for n in range(len(records) - 1, -1, -1) if records[n].outcome is Outcome.DELIVERED), -1)


def resolved_figures(ledger: Ledger, gone: Container[str]) -> dict[str, Any] | None:
    """Counts of records by what was found out; None where `resolve()` was not called.

    `second` had no answer before a last record was sent to their partition. Those that stay unknown are in one of
    three: `open_later` where a later record was delivered, `open_idle` where none was, and `open_other` where that is
    not the reason, or the topic is among the `gone`. Seconds are from the unknown outcome to the answer, of those that
    have one.
    """
    if not ledger.findings:
        return None
    last = {place: last_delivered(ledger, place) for place, _ in ledger.findings}
    counts: Counter[str] = Counter()
    for (place, sequence), finding in ledger.findings.items():
        if finding.found is not Found.OPEN:
            counts[finding.found] += 1
            counts["second"] += finding.calls == 2
        elif place.topic not in gone and sequence < last[place]:
            counts["open_later"] += 1
        else:
            counts["open_idle" if finding.reason == "undecided" else "open_other"] += 1
    seconds = sorted(one.seconds for one in ledger.findings.values() if one.found is not Found.OPEN)
    return {
        "unknown": len(ledger.findings),
        "stored": counts[Found.STORED],
        "absent": counts[Found.ABSENT],
        "second": counts["second"],
        **{name: counts[name] for name in ("open_later", "open_idle", "open_other")},
        "reasons": dict(Counter(one.reason for one in ledger.findings.values() if one.found is Found.OPEN)),
        "p50_s": _percentile(seconds, 50),
        "p99_s": _percentile(seconds, 99),
        "max_s": _percentile(seconds, 100),
        "passes": len(ledger.bytes_read),
        "bytes": sum(ledger.bytes_read),
        "bytes_max": max(ledger.bytes_read, default=0),
    }


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """0.0 where there is nothing."""
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3) if ordered else 0.0
