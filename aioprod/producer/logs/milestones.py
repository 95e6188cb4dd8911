"""What the log says of a producer's life: that it is connected, and what became of its records."""

from __future__ import annotations

from typing import Final, NamedTuple

from aioprod._build import COMPILED
from aioprod._words import counted, seconds_of
from aioprod.cluster import Cluster
from aioprod.config import ProducerConfig
from aioprod.types import DeliveryReport

__all__ = ["PRODUCER", "Facade", "closed", "connected", "loop_ended", "named"]


class Facade(NamedTuple):
    """The class that users make, and its closing method: for the warnings about one that was not closed."""

    name: str
    close: str

    @property
    def advice(self) -> str:
        """What to write instead."""
        return f"Use `async with {self.name}(...)`, or `await producer.{self.close}()`."


PRODUCER: Final = Facade("Producer", "close")


def named(config: ProducerConfig, kind: str = "Producer") -> str:
    """A producer at the beginning of a sentence, by its class and its client.id if it was given one."""
    return f"{kind} {config.client_id!r}" if config.client_id else "The producer"


def connected(config: ProducerConfig, cluster: Cluster) -> str:
    """That a producer has started: where, and as what."""
    writes = "idempotent" if config.enable_idempotence else "not idempotent"
    if config.transactional_id is not None:
        writes = f"transactional.id={config.transactional_id}"
    facts = [counted(len(cluster.nodes), "broker"), f"acks={'all' if config.acks == -1 else config.acks}", writes]
    if config.security_protocol != "PLAINTEXT":
        facts.append(config.security_protocol)
    facts.append("compiled" if COMPILED else "interpreted")
    return f"{named(config)} is connected to cluster {cluster.cluster_id}: {', '.join(facts)}"


def closed(config: ProducerConfig, report: DeliveryReport, age_s: float, close_s: float) -> str:
    """That a producer has closed: the outcomes of its records, its age, and how long the close took."""
    return (
        f"{named(config)} is closed after {seconds_of(age_s)} (closing took {seconds_of(close_s)}): "
        f"{counted(report.delivered, 'record')} delivered, {report.not_sent} not sent, {report.unknown} unknown, "
        f"{report.rejected} rejected"
    )


def loop_ended(config: ProducerConfig, facade: Facade, records: int, *, is_closing: bool) -> str:
    """The log line of a producer whose event loop ended before it was closed, with its records without outcome."""
    left = f", and {counted(records, 'record')} {'has' if records == 1 else 'have'} no outcome" if records else ""
    when = (
        "was still being closed when its event loop ended"
        if is_closing
        else "was not closed before its event loop ended"
    )
    return f"{named(config, facade.name)} {when}{left}. {facade.advice}"
