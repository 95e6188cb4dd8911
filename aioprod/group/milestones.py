"""What a member logs of its life: that it is connected, and that it is closed or has failed."""

from __future__ import annotations

from aioprod._build import COMPILED
from aioprod._words import counted, seconds_of
from aioprod.cluster.model import Cluster
from aioprod.group.config import MemberConfig
from aioprod.group.member_log import MemberLog
from aioprod.group.meters import MemberMetrics

__all__ = ["Milestones"]


class Milestones:
    """Writes one line when a member is connected, and one when it has ended; `now` is in monotonic seconds."""

    def __init__(self, log: MemberLog, config: MemberConfig, metrics: MemberMetrics) -> None:
        self._log = log
        self._config = config
        self._metrics = metrics
        self._began = 0.0

    def connected(self, cluster: Cluster, now: float) -> None:
        """The member begins to join its group."""
        self._began = now
        config = self._config
        facts = [counted(len(cluster.nodes), "broker"), f"group.protocol={config.group_protocol}"]
        facts.append(f"enable.auto.commit={'true' if config.enable_auto_commit else 'false'}")
        if config.security_protocol != "PLAINTEXT":
            facts.append(config.security_protocol)
        facts.append("compiled" if COMPILED else "interpreted")
        self._log.info("is connected to cluster %s: %s", cluster.cluster_id, ", ".join(facts))

    def ended(self, failure: BaseException | None, now: float) -> None:
        """The member has left its group, or `failure` has ended it."""
        if failure is not None:
            self._log.error("has failed, and returns no more records: %s", failure)
            return
        totals = self._metrics.snapshot()
        self._log.info(
            "is closed after %s: %s returned, %s, %d failed",
            seconds_of(now - self._began),
            counted(int(totals["records_consumed_total"]), "record"),
            counted(int(totals["commit_total"]), "commit"),
            totals["commit_failed_total"],
        )

    def cut_off(self) -> None:
        """The time to close is over, or its event loop ends."""
        self._log.warning("has ended without leaving it: its partitions wait for session.timeout.ms")
