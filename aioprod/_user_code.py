"""What becomes of errors that a user's code raises where aioprod calls it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["raise_later"]


def raise_later(error: BaseException) -> None:
    """Have a KeyboardInterrupt or SystemExit that was caught end the loop, once the present step is finished.

    Any other error is done with: it was logged, or its caller has it.
    """
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        with suppress(RuntimeError):  # Outside of a loop there is nothing to end.
            asyncio.get_running_loop().call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error
