"""The base of all errors; `errors.py` has the errors."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

__all__ = ["AioprodError"]


class AioprodError(Exception):
    """The base of all errors that aioprod raises on purpose.

    `message` says in one sentence what happened and to what; `hint` says what the user can do, or is None.

    `may_be_stored` answers the question that every handler has. False: nothing of what the call, or the record, was to
    write is in the log or ever will be, as a read_committed reader sees it, so that it may be sent again. True: some of
    it is there, or that is not known: sending it again may store it twice.
    """

    __module__ = "aioprod.errors"  # Where users import it from.

    may_be_stored: bool = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} Hint: {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)

    def again(self) -> Self:
        """A copy of the error for one more waiter: in a shared object the tracebacks would pile up."""
        error = copy(self)
        error.__cause__ = self.__cause__
        return error

    def restated(self, message: str, *, hint: str | None = None) -> Self:
        """A copy with another message, by a caller that knows more about what failed."""
        error = copy(self)
        error.args = (message,)
        error.message = message
        error.hint = hint
        return error


def _rebuilt(kind: type[AioprodError], args: tuple[Any, ...], fields: dict[str, Any]) -> AioprodError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error
