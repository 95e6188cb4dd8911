"""What becomes of a producer that nobody closed: nobody refers to it any more, or its event loop has ended."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Final

from aioprod.errors import UsageError
from aioprod.producer.closing import Ending
from aioprod.producer.explain import counted
from aioprod.producer.guard import State
from aioprod.producer.logs.milestones import named

if TYPE_CHECKING:
    from aioprod.producer.engine import Engine

__all__ = ["dropped", "loop_ended"]

log = logging.getLogger("aioprod.producer")

ADVICE: Final = "Use `async with Producer(...)`, or `await producer.close()`."


def dropped(engine: Engine, producer: object) -> None:
    """Nobody refers to `producer` any more: warn, and close what it leaves, if it was not closed.

    Its records are delivered first, within `close.timeout.ms` or their own deadlines. May be called in any thread, and
    when the loop has ended: then what has no outcome is told to the log.
    """
    if engine.guard.state is not State.RUNNING or engine.guard.forked:
        return
    try:
        engine.loop.call_soon_threadsafe(_close, engine)
    except RuntimeError:
        _tell_of_lost(engine)
    name = "producer" if not engine.config.client_id else named(engine.config)
    warnings.warn(
        f"Unclosed {name}: use `async with`, or `await producer.close()`.",
        ResourceWarning,
        stacklevel=2,
        source=producer,
    )


def _close(engine: Engine) -> None:
    if engine.is_ending:
        return
    records = engine.buffered().records
    if records and engine.guard.state is State.RUNNING:
        log.warning(
            "%s was dropped without being closed, and is closed when %s %s outcome. %s",
            named(engine.config),
            counted(records, "record"),
            "has its" if records == 1 else "have their",
            ADVICE,
        )
    engine.begin_close(None)


def _tell_of_lost(engine: Engine) -> None:
    """The loop is closed, and was not even given the time to cancel its tasks: nobody can be told any more."""
    records = engine.buffered().records
    if records:
        log.error(
            "%s was dropped after its event loop had ended: what became of %s is not known. %s",
            named(engine.config),
            counted(records, "record"),
            ADVICE,
        )


def loop_ended(engine: Engine) -> None:
    """The loop cancels its tasks, and won't run for much longer: fail at once what has no outcome."""
    records = engine.buffered().records
    left = f", and {counted(records, 'record')} {'has' if records == 1 else 'have'} no outcome" if records else ""
    when = "was not closed before its event loop ended"
    if engine.guard.state is State.CLOSING:
        when = "was still being closed when its event loop ended"
    log.error("%s %s%s. %s", named(engine.config), when, left, ADVICE)
    why = "the sender was cancelled: its event loop ended before the producer was closed."
    error = UsageError(f"T{why[1:]}", hint=ADVICE)
    engine.guard.fail(error)
    engine.give_up_now(Ending(why, engine.guard.refusal(), cause=error))
    engine.delivery.tell_counted()
