"""The loggers of aioprod. Handlers and filters are a user's code: what they raise costs no record and no connection."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress

from aioprod._user_code import raise_later

__all__ = ["Logger"]


class Logger(logging.LoggerAdapter[logging.Logger]):
    """Writes to the logger of a name, and never raises where a loop runs.

    A KeyboardInterrupt or SystemExit ends the loop once the present step is finished. Any other error is printed to
    stderr, where `logging` itself reports what a handler has caught, and as there `logging.raiseExceptions` decides.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        """Write a line; all other methods of a logger call this one."""
        try:
            if self.isEnabledFor(level):
                self.logger.log(level, msg, *args, **{"stacklevel": 2, **kwargs})  # type: ignore[arg-type]  # exc_info
        except BaseException as error:
            if raise_later(error):
                return
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            _report()


def _report() -> None:
    if logging.raiseExceptions and sys.stderr is not None:
        with suppress(Exception):
            traceback.print_exc()
