"""Producers that were not closed: when they are garbage-collected, and when their event loop ends."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.errors import UsageError
from aioprod.producer.closing import Ending
from aioprod.producer.guard import State
from aioprod.producer.logs.milestones import named

if TYPE_CHECKING:
    from aioprod.producer.engine import Engine

__all__ = ["PRODUCER", "Facade", "dropped", "loop_ended"]

_logger = Logger("aioprod.producer")


class Facade(NamedTuple):
    """The class that a user has made, and its method that closes, for what is said of one that was not closed."""

    name: str
    close: str

    @property
    def advice(self) -> str:
        """What to write instead."""
        return f"Use `async with {self.name}(...)`, or `await producer.{self.close}()`."


PRODUCER: Final = Facade("Producer", "close")


def dropped(engine: Engine, producer: object) -> None:
    """Warn that `producer` was garbage-collected without being closed, and close its engine.

    Its records are delivered first, within `close.timeout.ms` or their own deadlines. May be called in any thread, and
    when the loop has ended: then the records without outcome are logged.
    """
    if engine.guard.state is not State.RUNNING or engine.guard.forked:
        return
    try:
        engine.loop.call_soon_threadsafe(_close, engine)
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


def loop_ended(engine: Engine) -> None:
    """The loop cancels its tasks, and won't run for much longer: fail at once what has no outcome."""
    records = engine.buffered().records
    left = f", and {counted(records, 'record')} {'has' if records == 1 else 'have'} no outcome" if records else ""
    when = "was not closed before its event loop ended"
    if engine.guard.state is State.CLOSING:
        when = "was still being closed when its event loop ended"
    _logger.error("%s %s%s. %s", named(engine.config, engine.facade.name), when, left, engine.facade.advice)
    why = "the sender was cancelled: its event loop ended before the producer was closed."
    error = UsageError(f"T{why[1:]}", hint=engine.facade.advice)
    engine.guard.fail(error)
    engine.fail_all_now(Ending(why, engine.guard.error(), cause=error))
    engine.completions.log_counted()
