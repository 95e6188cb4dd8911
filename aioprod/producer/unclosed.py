"""Producers that are garbage-collected without being closed."""

from __future__ import annotations

import warnings

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.producer.engine import Engine
from aioprod.producer.guard import State
from aioprod.producer.logs.milestones import named

__all__ = ["dropped"]

_logger = Logger("aioprod.producer")


def dropped(engine: Engine, producer: object) -> None:
    """Warn that `producer` was garbage-collected without being closed, and close its engine.

    Its records are delivered first, within `close.timeout.ms` or their own deadlines. May be called in any thread, and
    when the loop has ended: then the records without outcome are logged.
    """
    if engine.guard.state is not State.RUNNING or engine.guard.forked:
        return
    try:
        engine.parts.loop.call_soon_threadsafe(_close, engine)
    except RuntimeError:
        _log_lost(engine)
    facade, client_id = engine.facade, engine.config.client_id
    name = f"{facade.name} {client_id!r}" if client_id else facade.name
    warnings.warn(
        f"Unclosed {name}: use `async with`, or `await producer.{facade.close}()`.",
        ResourceWarning,
        stacklevel=2,
        source=producer,
    )


def _close(engine: Engine) -> None:
    if engine.is_ending:
        return
    records = engine.buffered().records
    if records and engine.guard.state is State.RUNNING:
        _logger.warning(
            "%s was dropped without being closed, and is closed when %s %s outcome. %s",
            named(engine.config, engine.facade.name),
            counted(records, "record"),
            "has its" if records == 1 else "have their",
            engine.facade.advice,
        )
    engine.begin_close(None)


def _log_lost(engine: Engine) -> None:
    """Log the records without outcome: the loop is closed, so that nothing can be completed any more."""
    records = engine.buffered().records
    if records:
        _logger.error(
            "%s was dropped after its event loop had ended: what became of %s is not known. %s",
            named(engine.config, engine.facade.name),
            counted(records, "record"),
            engine.facade.advice,
        )
