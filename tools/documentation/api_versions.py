"""The table of the APIs that aioprod speaks, each with its versions, in the page about KIPs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aioprod.messages.registry import REQUESTS

__all__ = ["filled"]

_TABLE: Final = re.compile(r"(?<=<!-- table: made from aioprod.messages -->\n).*?(?=\n\n)", re.DOTALL)


def filled(page: str) -> str:
    """The page with its table as it has to be."""
    return _TABLE.sub("\n".join(_rows()), page)


def _rows() -> Iterator[str]:
    yield "| API | key | versions |"
    yield "|---|---|---|"
    for request in REQUESTS:
        first, last = request.VERSIONS
        newest = last if request.STABLE_MAX is None else request.STABLE_MAX
        yield f"| {request.NAME} | {request.API_KEY} | {first} to {newest} |"
