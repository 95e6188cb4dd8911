"""How much a member has fetched."""

from __future__ import annotations

from aioprod.messages import FetchResponse

__all__ = ["FetchCounts"]


class FetchCounts:
    """Totals of the responses to Fetch requests."""

    def __init__(self) -> None:
        self.responses = 0
        self.bytes = 0
        """Bytes of record batches, compressed."""

    def note(self, response: FetchResponse) -> None:
        """A broker has answered."""
        self.responses += 1
        self.bytes += sum(len(row.records or b"") for topic in response.responses for row in topic.partitions)
