"""The health of a spooled producer, for the probes of a service."""

from __future__ import annotations

from typing import NamedTuple

from aioprod.relay import RelayHealth

__all__ = ["SpoolHealth"]


class SpoolHealth(NamedTuple):
    """The health of a spooled producer now."""

    state: str
    """One of new, starting, running, closing, closed and failed."""
    kept_records: int
    """How many records are on disk, and not in Kafka as far as the folder knows."""
    kept_bytes: int
    """The bytes of the files."""
    max_bytes: int
    """What these may have."""
    relay: RelayHealth | None
    """The way from the disk to Kafka; None where another process has it, and before the start."""
    error: BaseException | None
    """Why nothing is accepted any more, such as a disk that has failed; None while all is well."""

    @property
    def is_alive(self) -> bool:
        """Whether to keep the process: only a spool that has failed needs a new one, which opens it again."""
        return self.error is None

    def is_ready(self, share_max: float = 0.9) -> bool:
        """Whether to route work here: records are accepted, also while Kafka is away, until the spool is nearly full.

        Whether they reach Kafka is another question: `relay.is_ready()`.
        """
        return self.state == "running" and self.kept_bytes <= share_max * self.max_bytes
