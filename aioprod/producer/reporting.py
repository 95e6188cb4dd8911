"""The metric reporters of a producer: each gets a snapshot now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aioprod._logger import Logger
from aioprod._user_code import raise_later
from aioprod.config import ProducerConfig, close_instance, instantiate

__all__ = ["Reporting"]

_logger = Logger("aioprod.producer")


class Reporting:
    """Passes the metrics to the configured reporters, every `metrics.sample.window.ms`."""

    def __init__(self, config: ProducerConfig, snapshot: Callable[[], dict[str, float]]) -> None:
        self._reporters = [instantiate(reporter, "reporter", config) for reporter in config.metric_reporters]
        self._snapshot = snapshot
        self._interval_s = config.metrics_sample_window_ms / 1000
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report now, and again and again until `close`."""
        if not self._reporters:
            return
        snapshot = self._snapshot()
        for reporter in self._reporters:
            try:
                reporter.report(snapshot)
            except BaseException as error:
                raise_later(error)
                _logger.exception("A metric reporter failed")
        self._timer = loop.call_later(self._interval_s, self.start, loop)

    def stop(self) -> None:
        """Report no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Close the reporters."""
        for reporter in self._reporters:
            close_instance(reporter)
