"""The callers and callbacks of records that are on disk and not in Kafka yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakValueDictionary

from aioprod._logger import Logger
from aioprod._user_code import raise_later
from aioprod.errors import AioprodError
from aioprod.interceptors import Interceptors
from aioprod.relay.columns import ColumnRows, Rows
from aioprod.spool.kept import Kept
from aioprod.spool.reading import number_of
from aioprod.types import DeliveryCallback, RecordMetadata

__all__ = ["Watched"]

_logger = Logger("aioprod.spool")


class Watched:
    """The records that a caller has a `Kept` or a callback for, by their numbers.

    A `Kept` counts for as long as its caller has it.
    """

    def __init__(self, interceptors: Interceptors, check_running: Callable[[], None]) -> None:
        self._interceptors = interceptors
        self.check_running = check_running
        """Raises the error that `stored()` gets where nothing brings records to Kafka."""
        self._kept: WeakValueDictionary[int, Kept] = WeakValueDictionary()
        self._callbacks: dict[int, DeliveryCallback] = {}

    def watch(self, number: int, kept: Kept) -> None:
        """Report the outcome of a record to this object."""
        self._kept[number] = kept

    def call_back(self, number: int, callback: DeliveryCallback) -> None:
        """Call back with the outcome of a record."""
        self._callbacks[number] = callback

    def awaited(self, rows: Rows) -> Sequence[int]:
        """The indexes of the records that are watched."""
        if self._interceptors:
            return range(len(rows))
        if not self._kept and not self._callbacks:
            return ()
        first, last = number_of(_position(rows, 0)), number_of(_position(rows, -1))
        kept, callbacks = self._kept, self._callbacks
        if len(kept) + len(callbacks) < len(rows) == last - first + 1:
            return sorted(number - first for number in {*kept, *callbacks} if first <= number <= last)
        # After an outage many more may be watched than are in one run: look at each of its rows.
        numbers = rows.numbers if isinstance(rows, ColumnRows) else [number_of(position) for _, position in rows]
        return [at for at, number in enumerate(numbers) if number in callbacks or number in kept]

    def delivered(self, rows: Rows, places: Mapping[int, RecordMetadata]) -> None:
        """These records are in Kafka for good."""
        for index, place in places.items():
            self._report(number_of(_position(rows, index)), place, None)

    def set_aside(self, number: int, place: RecordMetadata, error: AioprodError) -> bool:
        """A record will not be in Kafka; `place` has its topic. Whether a caller or a callback was notified."""
        return self._report(number, place, error)

    def interrupt(self, error: AioprodError) -> None:
        """Nothing brings records to Kafka now: fail the waiters. The records stay."""
        for kept in list(self._kept.values()):
            kept.interrupt(error)

    def _report(self, number: int, place: RecordMetadata, error: AioprodError | None) -> bool:
        kept = self._kept.pop(number, None)
        if kept is not None:
            kept.resolve(place) if error is None else kept.fail(error)
        callback = self._callbacks.pop(number, None)
        if callback is not None:
            call("The callback", callback, None if error is not None else place, error)
        if self._interceptors:
            self._interceptors.on_acknowledgement(place, error)
        return kept is not None or callback is not None


def call(name: str, function: Callable[..., object], *arguments: object) -> None:
    """Call a function of the user's; what it raises is logged."""
    try:
        function(*arguments)
    except BaseException as raised:
        if not raise_later(raised):
            _logger.warning("%s %r failed.", name, function, exc_info=raised)


def _position(rows: Rows, index: int) -> bytes:
    return rows.position(index) if isinstance(rows, ColumnRows) else rows[index][1]
