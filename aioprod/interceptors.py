"""Hooks around each record: before it is serialized, and when its outcome is known."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aioprod.config import close_instance, describe, instantiate
from aioprod.errors import AioprodError, ConfigError
from aioprod.types import ProducerRecord, RecordMetadata

if TYPE_CHECKING:
    from aioprod.config import ProducerConfig

__all__ = ["Interceptors", "ProducerInterceptor"]

PARTITION_MAX = 2**31 - 1

_logger = logging.getLogger("aioprod")


class ProducerInterceptor:
    """The base of interceptors, and what they may do; any object with some of these methods will do as well.

    The methods run on the event loop for every record, so they must be quick; none may be a coroutine function.
    One that raises is logged and counted, and the record goes its way.
    """

    def configure(self, config: ProducerConfig) -> None:
        """Get the producer's configuration, before anything else."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send instead: the same one, changed or not, or another."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        """Hear the outcome of a record, before its sender does; `error` is None for a delivered one.

        For a failed record, `metadata` names its topic and partition (-1 if it had none yet) and offset -1.
        """

    def close(self) -> None:
        """Release what is held; nothing is called after this."""


class Interceptors:
    """All interceptors of a producer, called in order; false if there are none.

    `failures` counts the calls that raised, or returned something that is no record.
    """

    __slots__ = ("_members", "_on_acknowledgement", "_on_send", "failures")

    def __init__(self, members: Sequence[Any] = ()) -> None:
        """Take the interceptors as they are; raises ConfigError for one that is none."""
        self._members = tuple(members)
        self._on_send = _hooks(self._members, "on_send")
        self._on_acknowledgement = _hooks(self._members, "on_acknowledgement")
        self.failures = 0

    @classmethod
    def from_config(cls, config: ProducerConfig) -> Interceptors:
        """Create and configure the interceptors that `config` names; raises ConfigError."""
        return cls([instantiate(given, "interceptor", config) for given in config.interceptor_classes])

    def __bool__(self) -> bool:
        return bool(self._members)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record as the interceptors want it sent; each gets what the last one that worked returned."""
        for hook in self._on_send:
            try:
                replacement = hook(record)
                if not isinstance(replacement, ProducerRecord):
                    raise TypeError(f"on_send must return a ProducerRecord, not {type(replacement).__qualname__}")
                record = replacement
            except (Exception, asyncio.CancelledError):
                self._failed(hook)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        """Tell all interceptors the outcome of a record."""
        for hook in self._on_acknowledgement:
            try:
                hook(metadata, error)
            except (Exception, asyncio.CancelledError):
                self._failed(hook)

    def on_send_error(self, record: ProducerRecord, partition: int | None, error: AioprodError) -> None:
        """Tell all interceptors of a record that failed before it was accepted; `partition` is None without one."""
        # What is wrong with a record may be its topic or its partition.
        where = partition if isinstance(partition, int) and 0 <= partition <= PARTITION_MAX else -1
        self.on_acknowledgement(RecordMetadata(str(record.topic), where, offset=-1, timestamp=-1), error)

    def close(self) -> None:
        """Close all interceptors that can be closed; a failure is logged."""
        for member in self._members:
            close_instance(member)

    def _failed(self, hook: Callable[..., Any]) -> None:
        self.failures += 1
        # Each power of two: a hook that fails for every record must not fill the log.
        if self.failures & (self.failures - 1) == 0:
            _logger.warning(
                "Interceptor %s failed and was passed over (%s of interceptors so far).",
                describe(hook),
                "1 failure" if self.failures == 1 else f"{self.failures} failures",
                exc_info=True,
            )


def _hooks(members: Sequence[Any], method: str) -> tuple[Callable[..., Any], ...]:
    hooks = [hook for member in members if callable(hook := getattr(member, method, None))]
    for hook in hooks:
        if inspect.iscoroutinefunction(hook):
            raise ConfigError(
                f"{describe(hook)} of an interceptor is a coroutine function, but it is called, not awaited.",
                hint="Make it a plain function that starts a task for what takes time.",
            )
    return tuple(hooks)
