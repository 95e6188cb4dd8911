"""Hooks around each record: before it is serialized, and when its outcome is known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioprod._logger import Logger
from aioprod._user_code import raise_later
from aioprod._words import counted
from aioprod.config import close_instance, describe, instantiate
from aioprod.errors import AioprodError, ConfigError
from aioprod.types import ProducerRecord, RecordMetadata

if TYPE_CHECKING:
    from aioprod.config import ProducerConfig

__all__ = ["Interceptors", "ProducerInterceptor"]

PARTITION_MAX: Final = 2**31 - 1

_logger = Logger("aioprod")


class ProducerInterceptor:
    """The base of interceptors; any object with at least one of these methods is an interceptor, too.

    The methods run on the event loop for every record, so they must be quick; none may be a coroutine function.
    An error of any kind is logged and counted, and the record is sent all the same; KeyboardInterrupt and SystemExit
    end the loop after that. With `aioprod.sync` `on_send` runs in the threads of `submit` and `send_nowait`.
    """

    def configure(self, config: ProducerConfig) -> None:
        """Receive the producer's configuration, before any other call."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send instead: the same one, changed or not, or another."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        """Receive the outcome of a record, before its sender does; `error` is None for a delivered one.

        For a failed record, `metadata` names its topic and partition (-1 if it had none yet) and offset -1.
        """

    def close(self) -> None:
        """Release resources; no other method is called after this."""


class Interceptors:
    """All interceptors of a producer, called in order; false if there are none."""

    __slots__ = ("_members", "_on_acknowledgement", "_on_send", "failures")

    def __init__(self, members: Sequence[Any] = ()) -> None:
        """Take the interceptors as they are; raises ConfigError for one whose method is a coroutine function."""
        self._members = tuple(members)
        self._on_send = _hooks(self._members, "on_send")
        self._on_acknowledgement = _hooks(self._members, "on_acknowledgement")
        self.failures = 0
        """How many calls raised, or did not return a record."""

    @classmethod
    def from_config(cls, config: ProducerConfig) -> Interceptors:
        """Create and configure the interceptors that `config` names; raises ConfigError."""
        return cls([instantiate(given, "interceptor", config) for given in config.interceptor_classes])

    def __bool__(self) -> bool:
        return bool(self._members)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send: each interceptor gets what the last one that succeeded returned."""
        for hook in self._on_send:
            try:
                replacement = hook(record)
                if not isinstance(replacement, ProducerRecord):
                    raise TypeError(f"on_send must return a ProducerRecord, not {type(replacement).__qualname__}")
                record = replacement
            except BaseException as error:
                self._failed(hook, error)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        """Call `on_acknowledgement` of all interceptors with the outcome of a record."""
        for hook in self._on_acknowledgement:
            try:
                hook(metadata, error)
            except BaseException as raised:
                self._failed(hook, raised)

    def on_send_error(self, record: ProducerRecord, partition: int | None, error: AioprodError) -> None:
        """Call `on_acknowledgement` for a record that failed before it was accepted; `partition` may be None."""
        # The topic or the partition may be the very part of the record that is invalid.
        where = partition if isinstance(partition, int) and 0 <= partition <= PARTITION_MAX else -1
        self.on_acknowledgement(RecordMetadata(str(record.topic), where, offset=-1, timestamp=-1), error)

    def close(self) -> None:
        """Close all interceptors that can be closed; a failure is logged."""
        for member in self._members:
            close_instance(member)

    def _failed(self, hook: Callable[..., Any], error: BaseException) -> None:
        self.failures += 1
        if not raise_later(error) and isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error  # In a thread without a loop its caller is to get it.
        # Each power of two: a hook that fails for every record must not fill the log.
        if self.failures & (self.failures - 1) == 0:
            _logger.warning(
                "Interceptor %s failed and was skipped (%s of interceptors so far).",
                describe(hook),
                counted(self.failures, "failure"),
                exc_info=error,
            )


def _hooks(members: Sequence[Any], method: str) -> tuple[Callable[..., Any], ...]:
    hooks = [hook for member in members if callable(hook := getattr(member, method, None))]
    for hook in hooks:
        if inspect.iscoroutinefunction(hook):
            raise ConfigError(
                f"{describe(hook)} of an interceptor is a coroutine function, but it is called, not awaited.",
                hint="Make it a plain function that starts a task for slow work.",
            )
    return tuple(hooks)
