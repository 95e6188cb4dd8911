"""Why many records fail at once: their producer ends, or their transaction does."""

from __future__ import annotations

from aioprod.errors import AioprodError, ProducerClosedError
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.explain import Explainer

__all__ = ["MassFailure"]


class MassFailure:
    """The reason for which all records without outcome fail, or all that are not in flight."""

    def __init__(
        self,
        why: str,
        error: AioprodError,
        *,
        cause: BaseException | None = None,
        spares_in_flight: bool = False,
        explainer: Explainer | None = None,
        now: float = 0.0,
    ) -> None:
        self.error = error
        """For the records that have no partition yet."""
        self.cause = cause
        """The cause of the errors of the other records, None where each batch has its own."""
        self.spares_in_flight = spares_in_flight
        """Whether batches in flight are left to their answers."""
        self._why = why
        self._explainer = explainer
        """With an explainer the errors also say what the records waited for until `now`."""
        self._now = now
        self._reasons: dict[Partition, str] = {}

    def of_batch(self, batch: Batch) -> str:
        """Why the records of a batch fail, in a sentence; with what the first batch of its partition waited for."""
        if self._explainer is None:
            return self._why
        partition = batch.partition
        if partition not in self._reasons:
            self._reasons[partition] = f"{self._why} {self._explainer.why_expired(batch, self._now)}"
        return self._reasons[partition]

    def of_topic(self, topic: Topic) -> AioprodError:
        """The error for the records of a topic that is not known yet."""
        if self._explainer is None:
            return self.error
        text = f"{self.error.message} {self._explainer.topic_unknown(topic, self._now)}"
        return ProducerClosedError(text, hint=self.error.hint)
