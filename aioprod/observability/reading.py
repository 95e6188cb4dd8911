"""Reading a client's metrics from any thread."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from aioprod._logger import Logger
from aioprod._loops import call_in_loop
from aioprod.metrics.families import Family

__all__ = ["Observed", "read_families"]

_PATIENCE_S: Final = 5.0
"""How long a collection waits for an event loop that is busy; Prometheus itself waits for 10 s."""

_logger = Logger("aioprod")


class Observed(Protocol):
    """What a collector reads: a producer, a member or a relay."""

    @property
    def client_id(self) -> str:
        """The client's id at the brokers."""

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the client lives in, None before it is started."""

    def metric_families(self) -> list[Family]:
        """All metrics; to be called in the thread of the loop."""


def read_families(client: Observed, label: str | None = None) -> list[Family]:
    """The metrics of a client, read in the thread of its loop, while that runs elsewhere.

    None, and a warning, where the loop is blocked for five seconds.
    """
    loop = client.event_loop
    if loop is None or not loop.is_running() or _runs_here(loop):
        return client.metric_families()
    try:
        future = call_in_loop(loop, client.metric_families)
    except RuntimeError:  # The loop was closed meanwhile.
        return client.metric_families()
    try:
        return future.result(_PATIENCE_S)
    except TimeoutError:
        future.cancel()
        _logger.warning(
            "The metrics of client %r were not collected: its event loop was blocked for %g s",
            label or client.client_id,
            _PATIENCE_S,
        )
        return []


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
