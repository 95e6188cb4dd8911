"""Which error to raise for a request that failed more than once."""

from __future__ import annotations

from aioprod.errors import AioprodError, RequestTimedOutError

__all__ = ["prefer_specific_error"]


def prefer_specific_error(before: AioprodError | None, error: AioprodError, *, was_cut_off: bool) -> AioprodError:
    """The more specific error of two failed attempts: `error`, the later one, unless it only ran out of time.

    `was_cut_off`: the caller's deadline left the later attempt less time than an attempt has by itself.
    """
    says_less = was_cut_off and isinstance(error, RequestTimedOutError)
    return error if before is None or not says_less else before
