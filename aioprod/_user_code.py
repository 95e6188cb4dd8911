"""What becomes of errors that a user's code raises where aioprod calls it."""

from __future__ import annotations

import asyncio

__all__ = ["raise_later"]


def raise_later(error: BaseException) -> bool:
    """Have a KeyboardInterrupt or SystemExit that was caught end the loop, once the present step is finished.

    Any other error is done with: it was logged, or its caller has it. Returns whether the loop ends: outside of a loop
    there is nothing to end.
    """
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        try:
            asyncio.get_running_loop().call_soon(_raise, error)
        except Exception:  # There is no loop, or no memory: nothing of ours may fail by that.
            return False
        return True
    return False


def _raise(error: BaseException) -> None:
    raise error
