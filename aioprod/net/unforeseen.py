"""Unforeseen errors, of whatever type: each is the failure of one broker, which is tried again.

If such an error ended the client, what one broker sent would make it fail for all brokers, until its process restarts.
"""

from __future__ import annotations

import logging
from typing import Final

from aioprod._logger import Logger
from aioprod._user_code import raise_later
from aioprod.errors import AioprodError, BrokerConnectionError

__all__ = ["Unforeseen", "internal_failure"]

_LOGGED_MAX: Final = 100

_logger = Logger("aioprod.net")


class Unforeseen:
    """Makes such an error the failure of a broker, and logs each kind once, with its traceback."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def failure(self, what: str, error: BaseException) -> AioprodError:
        """The failure for `what`, which failed by `error`: one of our own errors itself, else a BrokerConnectionError
        whose cause it is.
        """
        if isinstance(error, AioprodError):
            return error
        failure = internal_failure(f"{what} failed by", error)
        self.log(failure)
        return failure

    def log(self, failure: BaseException) -> None:
        """Log an unforeseen failure; the same one at the next attempt is logged for debugging."""
        text = str(failure)
        level = logging.DEBUG if text in self._logged else logging.ERROR
        if len(self._logged) < _LOGGED_MAX:
            self._logged.add(text)
        _logger.log(level, "%s The client tries again.", text, exc_info=failure.__cause__ or failure)


def internal_failure(beginning: str, error: BaseException) -> BrokerConnectionError:
    """The failure of a connection by an error of our own, which is its cause; a KeyboardInterrupt ends the loop after
    it.

    `beginning` is its sentence up to "an internal error".
    """
    raise_later(error)
    failure = BrokerConnectionError(f"{beginning} an internal error: {type(error).__name__}.")
    failure.__cause__ = error
    return failure
