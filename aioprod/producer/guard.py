"""Where and when a producer can be used: its state, and the process, thread and event loop that it belongs to."""

from __future__ import annotations

import asyncio
import os
from asyncio import events
from collections.abc import Callable
from enum import Enum
from weakref import WeakSet

from aioprod._loops import running_loop
from aioprod._short_reprs import shown_error
from aioprod.errors import AioprodError, ProducerClosedError, UsageError
from aioprod.producer import native
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.producer.transactions.states import TransactionEvent

__all__ = ["Guard", "State"]


class State(Enum):
    """The life of a producer, in order."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class Guard:
    """Raises for calls that can't work, with one sentence; a call that can work costs next to nothing.

    A fork is noticed by `os.register_at_fork`, not per call; the running loop is known by its thread, since asyncio
    finds it by a system call before Python 3.12.
    """

    def __init__(self, rules: TransactionRules, *, is_open: bool = True) -> None:
        self._rules = rules
        """Has the error of a send while no transaction is open."""
        self.state = State.NEW
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where the producer lives; None before its start."""
        self.cause: BaseException | None = None
        """Why the producer has failed."""
        self.forked = False
        """Whether this is a child of the process that started the producer."""
        self.transaction = 0
        """The number of the present transaction."""
        self._usable = False
        self._open = is_open
        """Whether records are accepted, as far as transactions are concerned."""
        self._thread = 0
        self._is_running: Callable[[], bool] = bool

    def enter(self, state: State) -> None:
        """The producer goes to its next state; records are accepted in RUNNING only."""
        self.state = state
        self._usable = self._open and state is State.RUNNING and self.cause is None and not self.forked

    def admit(self, is_open: bool) -> None:
        """Whether records are accepted, as far as transactions are concerned."""
        self._open = is_open
        self.enter(self.state)

    def fail(self, cause: BaseException) -> None:
        """The producer is broken."""
        self.cause = cause
        self._usable = False

    def belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop, and by it the thread and the process, in which the producer lives."""
        self.loop = loop
        self._thread = native.thread_id()
        self._is_running = loop.is_running
        _guards.add(self)

    def after_fork(self) -> None:
        """This is the child of the process that started the producer: its connections are not ours."""
        self.forked = True
        self._usable = False

    def check(self) -> None:
        """Raise UsageError, ProducerClosedError or the transaction's error unless a record can be accepted now."""
        if not self._usable or native.thread_id() != self._thread or not self._is_running():
            raise self._reason()

    def begin_transaction(self) -> None:
        """Number the next transaction: a call that waits since the one before fails."""
        self.transaction += 1

    def check_transaction(self, transaction: int) -> None:
        """Raise UsageError when a call that has waited began in another transaction than the present one."""
        if transaction != self.transaction:
            raise UsageError(
                "The transaction in which this call began has ended, so its record was not taken.",
                hint="Await what is sent in a transaction before its end.",
            )

    def check_running(self) -> None:
        """Raise UsageError or ProducerClosedError unless the producer runs and is called where it lives."""
        is_usable = self.state is State.RUNNING and self.cause is None and not self.forked
        if not is_usable or native.thread_id() != self._thread or not self._is_running():
            raise self.error()

    def _reason(self) -> AioprodError:
        """Why a record is not accepted."""
        if self.state is State.RUNNING and not self._open:
            self.check_running()
            return self._rules.call_error(TransactionEvent.SEND) or self.error()
        return self.error()

    def check_new(self) -> None:
        """Raise UsageError unless the producer can be started here and now."""
        if self.forked:
            raise self.error()
        running_loop()
        if self.state is State.NEW:
            return
        if self.loop is not None and self.loop.is_closed():
            raise UsageError(
                "This producer was started in an event loop that has ended: make a new one.",
                hint="One producer serves one asyncio.run(...), and is best closed in it: async with Producer(...).",
            )
        if self.state in (State.STARTING, State.RUNNING) and self.cause is None:
            raise UsageError(
                f"This producer is {self.state.value} already: use it as it is.",
                hint="`async with producer` starts it, so call start() or write `async with`, not both.",
            )
        raise UsageError(f"This producer was started before and is {self.state_in_words}: make a new one.")

    @property
    def state_in_words(self) -> str:
        """The state of the producer."""
        if self.state is State.NEW:
            return "not started"
        if self.state is State.CLOSED:
            return "closed"
        if self.forked:
            return "of the parent process"
        return "failed" if self.cause is not None else self.state.value

    def check_not_closed(self) -> None:
        """Raise ProducerClosedError when the producer was closed while it started."""
        if self.state in (State.CLOSING, State.CLOSED):
            raise ProducerClosedError("The producer was closed while it started.")

    def error(self) -> UsageError:
        """Why a call can't work."""
        if self.forked:
            return UsageError(
                "This producer was started before the process forked, and its connections belong to the parent.",
                hint="Make and start a producer in the child.",
            )
        if self.cause is not None:
            said = self.cause.message if isinstance(self.cause, AioprodError) else f"{shown_error(self.cause)}."
            hint = self.cause.hint if isinstance(self.cause, AioprodError) else None
            error = ProducerClosedError(f"The producer has failed: {said}", hint=hint)
            error.__cause__ = self.cause
            return error
        if self.state is State.STARTING:
            return UsageError(
                "The producer is still starting.", hint="Await what starts it first; the log says what it waits for."
            )
        if self.state is State.NEW:
            return UsageError(
                "The producer is not started.",
                hint="Use `async with Producer(...)`, or `await producer.start()` first.",
            )
        if self.state is not State.RUNNING:
            return ProducerClosedError(f"The producer is {self.state.value} and takes no more records.")
        where = "no event loop runs here" if events._get_running_loop() is None else "this is another event loop"
        return UsageError(
            f"A producer can be used only in the event loop that started it, and {where}.",
            hint="From another thread: asyncio.run_coroutine_threadsafe(producer.send(...), loop).",
        )


_guards: WeakSet[Guard] = WeakSet()


def _after_fork() -> None:
    for guard in _guards:
        guard.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
