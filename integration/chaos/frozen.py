"""One broker is frozen for longer than the delivery timeout: the outcomes of the records that waited for it."""

from __future__ import annotations

from typing import Any

from integration.chaos.faults import Down
from integration.chaos.ledger import Ledger, Outcome, Place

__all__ = ["frozen_figures"]


def frozen_figures(ledger: Ledger, down: Down, leaders: dict[Place, int], deadline_s: float) -> dict[str, Any]:
    """Of the partitions without replicas that the frozen broker leads, records that could not arrive in time.

    These are the ones sent later than it was frozen whose deadline passed before it was thawed. `unknown_until_s` is
    when the last one whose outcome is unknown was sent, after the freeze: what was sent later never left, and must
    have ended as not sent. `failed_after_thaw` counts records of all partitions.
    """
    stuck = [
        told
        for place, records in ledger.records.items()
        if leaders.get(place) == down.broker_id
        for told in records
        if down.start < told.sent_at < down.thawed - deadline_s
    ]
    unknown = [told.sent_at - down.start for told in stuck if told.outcome in (Outcome.UNKNOWN, Outcome.FAILED)]
    after = [told for _, _, told in ledger.all() if told.sent_at > down.end]
    return {
        "stuck": len(stuck),
        "stuck_not_sent": sum(told.outcome is Outcome.NOT_SENT for told in stuck),
        "stuck_unknown": len(unknown),
        "stuck_delivered": sum(told.outcome is Outcome.DELIVERED for told in stuck),
        "unknown_until_s": round(max(unknown, default=0.0), 3),
        "slowest_stuck_s": round(max((told.told_at - told.sent_at for told in stuck), default=0.0), 3),
        "after_thaw": len(after),
        "failed_after_thaw": sum(told.outcome is not Outcome.DELIVERED for told in after),
    }
