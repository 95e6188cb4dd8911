"""The values that go in and come out of the public API."""

from __future__ import annotations

import datetime
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeAlias
from uuid import UUID

from aioprod._logger import Logger
from aioprod._short_reprs import shown_record
from aioprod._words import counted
from aioprod.consumed_record import ConsumedRecord
from aioprod.errors import AioprodError, DeliveryError, SendFailuresError, UsageError
from aioprod.record_metadata import RecordMetadata

__all__ = [
    "NO_VALUE",
    "Buffered",
    "ConsumedRecord",
    "DeliveryCallback",
    "DeliveryReport",
    "ErrorCallback",
    "GroupMetadata",
    "Headers",
    "NamesGroup",
    "OffsetAndMetadata",
    "ProducerRecord",
    "RecordMetadata",
    "SendResult",
    "Timestamp",
    "TopicPartition",
    "no_value",
]

_logger = Logger("aioprod.producer")

_RAISED_MAX: Final = 100
"""Failures that one error holds: no reader looks at a million."""

_FAILURES_SHOWN: Final = 3
"""Failures that a repr shows."""

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Record headers in wire order: (name, value or None). A name may repeat."""

Timestamp: TypeAlias = int | datetime.datetime
"""Milliseconds since the epoch, or an aware datetime."""


class TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """A committed position of a group: the next offset to read, and a text of up to 4 KB kept with it."""

    offset: int
    metadata: str = ""


class GroupMetadata(NamedTuple):
    """A member of a consumer group in one generation: the coordinator fences commits of older ones (KIP-447).

    With the group's name alone nothing is fenced.
    """

    group_id: str
    generation_id: int = -1
    """The member epoch with `group.protocol=consumer`."""
    member_id: str = ""
    group_instance_id: str | None = None

    @property
    def topic_ids(self) -> Mapping[TopicPartition, UUID]:
        """The ids of the topics that the member reads, where it says them, as `member.group_metadata` does.

        Offsets are committed for these topics then, and not for one that was created later under the same name
        (KIP-1319).
        """
        return {}


class NamesGroup(Protocol):
    """The group metadata of another client's consumer; its member is taken from the attributes of `GroupMetadata`."""

    @property
    def group_id(self) -> str:
        """The name of the consumer group."""
        ...


class _NoValue:
    """The type of `NO_VALUE`, the default of a value argument: None is a value, too."""

    def __repr__(self) -> str:
        return "<left out>"


NO_VALUE: Final[Any] = _NoValue()


def no_value(topic: object = None) -> UsageError:
    """The error for a record without a value; `topic` is named if it is known."""
    return UsageError(
        f"A record{'' if topic is None else f' for topic {topic!r}'} was given no value.",
        hint="Give value=None if it is to be a tombstone, which deletes its key from a compacted topic.",
    )


def _raise_no_value() -> Any:
    raise no_value()


@dataclass(slots=True, repr=False)
class ProducerRecord:
    """One record to send, before serialization. `partition=None` lets the partitioner choose.

    Its value has to be given: None is a tombstone. Raises UsageError where it is left out. A repr shows the sizes and
    beginnings of key and value, and the names of headers.
    """

    topic: str
    if TYPE_CHECKING:
        value: Any
    else:  # The factory runs only where no value is given.
        value: Any = field(default_factory=_raise_no_value)
    key: Any = field(default=None, kw_only=True)
    partition: int | None = field(default=None, kw_only=True)
    headers: Headers | None = field(default=None, kw_only=True)
    timestamp: Timestamp | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return shown_record(self, ("topic", "value", "key", "partition", "headers", "timestamp"))


class SendResult:
    """The result of one bulk call: `count` records, `offsets` as ranges per partition, `failures` as (index, error).

    A result whose failures were never read logs one warning when it is dropped, or when the interpreter ends. Reading
    them is to use `failures`, `raise_for_failures()`, `==` or `repr()`, or to copy or pickle the result.
    """

    __match_args__ = ("count", "offsets", "failures")
    __slots__ = ("__weakref__", "_failures", "_unread", "count", "offsets")

    def __init__(
        self,
        count: int,
        offsets: dict[TopicPartition, tuple[range, ...]],
        failures: tuple[tuple[int, AioprodError], ...] = (),
    ) -> None:
        self.count = count
        self.offsets = offsets
        self._failures = failures
        self._unread: weakref.finalize[..., SendResult] | None = None
        if failures:  # Texts only: an error's traceback may hold the result.
            index, first = failures[0]
            self._unread = weakref.finalize(self, _log_unread, _failed(len(failures), count), index, str(first))

    @property
    def failures(self) -> tuple[tuple[int, AioprodError], ...]:
        """The records that were not accepted or not delivered, by their index in the call, and why."""
        if self._unread is not None:
            self._unread.detach()
            self._unread = None
        return self._failures

    def raise_for_failures(self) -> Self:
        """Raise SendFailuresError if any record failed; else return the result itself.

        The error is an ExceptionGroup of the first hundred failures; its `count` is the number of all.
        """
        if not self.failures:
            return self
        count, first = len(self.failures), self.failures[0]
        held = self.failures[:_RAISED_MAX]
        raise SendFailuresError(
            f"{_failed(count, self.count)}, the first at index {first[0]}: {first[1].message}",
            [error for _, error in held],
            count=count,
            indexes=tuple(index for index, _ in held),
            hint=first[1].hint,
        )

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, SendResult) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # offsets are a dict

    def __reduce__(self) -> tuple[type[SendResult], tuple[Any, ...]]:
        return SendResult, self._values()

    def __repr__(self) -> str:
        more = f", and {len(self.failures) - _FAILURES_SHOWN} more" if len(self.failures) > _FAILURES_SHOWN else ""
        failures = ", ".join(map(repr, self.failures[:_FAILURES_SHOWN]))
        return f"SendResult(count={self.count}, offsets={self.offsets}, failures=({failures}{more}))"

    def _values(self) -> tuple[Any, ...]:
        return self.count, self.offsets, self.failures


def _log_unread(failed: str, index: int, first: str) -> None:
    _logger.warning(
        "%s, and the failures of the SendResult were never read, the first at index %d: %s "
        "(`raise_for_failures()` raises them)",
        failed,
        index,
        first,
    )


def _failed(count: int, of: int) -> str:
    return f"{count} of {counted(of, 'record')} {'was' if count == 1 else 'were'} not sent or not delivered"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The outcomes of all records accepted since `start()`."""

    delivered: int = 0
    not_sent: int = 0
    unknown: int = 0
    rejected: int = 0
    undelivered: tuple[DeliveryError, ...] = ()
    """The errors of the records that were failed by close."""
    kept: int = 0
    """The records that a `SpooledProducer` has on disk: they leave with the next start. 0 for a `Producer`."""


class Buffered(NamedTuple):
    """The contents of the buffer: accepted records without an outcome yet, and their encoded bytes."""

    records: int
    bytes: int


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, AioprodError | None], None]
"""Called once per record with (metadata, error), in this order: one of them is None. A plain function."""

ErrorCallback: TypeAlias = Callable[[AioprodError, ProducerRecord], None]
"""Called with (error, record) once for each failed record without a waiter. A plain function."""
