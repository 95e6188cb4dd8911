"""What a row is: its contenders, and the targets by which they are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from benchmarks.brokers import TOPIC, USUAL, Broker
from benchmarks.job import Job
from benchmarks.measure import ROUND, SLICE

__all__ = ["AIOKAFKA", "AIOPROD", "CONFLUENT", "INTERPRETED", "KB", "Check", "Contender", "Row", "cpu", "row"]

AIOPROD: Final = "aioprod"
INTERPRETED: Final = "aioprod interpreted"
AIOKAFKA: Final = "aiokafka"
CONFLUENT: Final = "confluent-kafka produce"
KB: Final = 1024

_UNITS: Final = {"idle": 100, "import": 1}
"""The calls that take long, whose number of records is a multiple of this, and never more than the contender's own."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One client with one call and its settings; `records` is the measured number, `settings` are fields of `Job`.

    If `partitions` is not 0, it is the number of partitions of all topics together. `needs` is a program that is not
    installed with this repository: where it is missing, the contender is not measured.
    """

    label: str
    client: str
    call: str
    records: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    partitions: int = 0
    needs: str = ""

    @property
    def is_peer(self) -> bool:
        """Whether it is another client than aioprod."""
        return not self.label.startswith(AIOPROD)

    def job(self, broker: Broker, records: int | None, scale: float) -> Job:
        """Return the job of its process; `records` replaces the number of records, `scale` multiplies it.

        What a contender reads is stored before, and is as much as it reads.
        """
        unit = _UNITS.get(self.call, ROUND if self.records >= ROUND else SLICE)
        wanted = self.records * scale if records is None else records
        if self.call in _UNITS:
            wanted = min(wanted, self.records)
        count = max(unit, round(wanted / unit) * unit)
        topics: tuple[str, ...] = (TOPIC,)
        partitions = broker.partitions
        if self.client == "reading":
            topic = broker.filled(self.settings["value_size"], self.settings["compression"], count)
            topics, partitions, count = (topic.name,), topic.partitions, topic.records
        elif self.partitions:
            topics, partitions = broker.many(self.partitions), broker.many_partitions
        return Job(
            client=self.client,
            call=self.call,
            records=count,
            warm_up=max(unit, count // 5 // unit * unit),
            bootstrap_servers=broker.bootstrap_servers,
            topics=topics,
            partitions=partitions,
            log_in=broker.log_in,
            **self.settings,
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One target: a metric of `ours` beside the best of `against`.

    "times": the ratio of the other's to ours is at least `bound`. "within": the ratio of ours to the other's is at most
    `bound`. "limit": ours, the worst of several, is at most `bound` in the unit of the metric.
    """

    metric: str
    kind: Literal["times", "within", "limit"]
    bound: float
    against: tuple[str, ...] = ()
    ours: tuple[str, ...] = (AIOPROD,)


@dataclass(frozen=True, slots=True)
class Row:
    """A call, its contenders, and its targets. `title` and `against` are the texts in the table.

    Without `against`, each target is named by the labels of its contenders. `brokers` are those it is measured on
    unless others are named; `unit` is what a "record" is called.
    """

    name: str
    title: str
    against: str
    contenders: tuple[Contender, ...]
    checks: tuple[Check, ...]
    brokers: tuple[str, ...] = USUAL
    unit: str = "record"

    def is_judged(self, contender: Contender) -> bool:
        """Whether a target depends on this contender; others are only compared."""
        return any(contender.label in (*check.ours, *check.against) for check in self.checks)

    def is_beside_a_peer(self, check: Check) -> bool:
        """Whether the target compares aioprod with another client, and not with itself."""
        return any(contender.is_peer and contender.label in check.against for contender in self.contenders)

    def is_on(self, broker: str, *, named: bool) -> bool:
        """Whether it runs on this broker. What sends to Kafka also runs over TLS, if the user has `named` that."""
        over_tls = "kafka" in self.brokers and all(contender.client != "programs" for contender in self.contenders)
        return broker in self.brokers or (named and broker == "tls" and over_tls)

    def words(self, check: Check) -> tuple[str, str]:
        """Return what a line of the table calls this target, and what it is compared with."""
        if self.against:
            return self.title, self.against
        return f"{self.title}: {', '.join(check.ours)}", " or ".join(check.against)


def row(
    name: str,
    title: str,
    against: str,
    contenders: list[Contender],
    *checks: Check,
    brokers: tuple[str, ...] = USUAL,
    unit: str = "record",
    **settings: Any,
) -> Row:
    """Return a row whose `settings` apply to all contenders that don't override them."""
    shared = {"batch_size": 128 * KB} | settings
    given = tuple(
        Contender(c.label, c.client, c.call, c.records, shared | dict(c.settings), c.partitions, c.needs)
        for c in contenders
    )
    return Row(name, title, against, given, checks, brokers, unit)


def cpu(bound: float, *against: str, ours: str = AIOPROD) -> Check:
    """Return the target of so many times less CPU time."""
    return Check("cpu_us", "times", bound, against, (ours,))
