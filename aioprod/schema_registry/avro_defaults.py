"""Defaults that are written for fields which a value does not have. fastavro's compiled writer puts them in without a
limit: a default may be of records that have defaults again, and of very many of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aioprod.errors import SerializationError

__all__ = ["check_written_defaults"]

_VALUES_MAX: Final = 10_000
_DEPTH_MAX: Final = 100
_LOOKED_AT_MAX: Final = 1_000_000
_RECORDS: Final = ("record", "error")


def check_written_defaults(types: Any) -> None:
    """Raise SerializationError for types of which a record without any field is written as too many values."""
    _Defaults(types).check()


class _Defaults:
    """Counts values, and how deep they are, once for each record."""

    def __init__(self, types: Any) -> None:
        self._records: dict[str, Any] = {}
        waiting = [types]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting += node
            elif isinstance(node, dict):
                waiting += [node[key] for key in ("items", "values") if key in node]
                waiting += [field["type"] for field in node.get("fields", ())]
                if node["type"] in _RECORDS:
                    self._records[node["name"]] = node
        self._empty: dict[str, tuple[int, int]] = {}
        self._left = _LOOKED_AT_MAX

    def check(self) -> None:
        """Raise SerializationError for more than the limits."""
        for record in self._records.values():
            self._of(record, {}, 0)

    def _of(self, node: Any, value: Any, depth: int) -> tuple[int, int]:
        """How many values are written for one of this type, and how many are inside each other."""
        self._left -= 1
        if self._left < 0:
            raise SerializationError(f"to count its defaults takes more than {_LOOKED_AT_MAX} steps.")
        if depth > _DEPTH_MAX:
            raise SerializationError(f"its defaults are nested more than {_DEPTH_MAX} deep.")
        node = self._records.get(node, node) if isinstance(node, str) else node
        if isinstance(node, list):
            branches = [self._of(branch, value, depth) for branch in node]
            return max((count for count, _ in branches), default=0), max((height for _, height in branches), default=0)
        kind = node["type"] if isinstance(node, dict) else node
        if kind == "array" and isinstance(value, list):
            inner = [(node["items"], item) for item in value]
        elif kind == "map" and isinstance(value, Mapping):
            inner = [(node["values"], item) for item in value.values()]
        elif kind in _RECORDS and isinstance(value, Mapping):
            return self._of_record(node, value, depth)
        else:
            inner = []
        return self._with(inner, depth)

    def _of_record(self, node: Any, value: Mapping[str, Any], depth: int) -> tuple[int, int]:
        known = None if value else self._empty.get(node["name"])
        if known is None:
            fields = [field for field in node["fields"] if field["name"] in value or "default" in field]
            inner = [(field["type"], value.get(field["name"], field.get("default"))) for field in fields]
            known = self._with(inner, depth)
        elif depth + known[1] > _DEPTH_MAX:
            raise SerializationError(f"its defaults are nested more than {_DEPTH_MAX} deep.")
        if not value:
            self._empty[node["name"]] = known
        return known

    def _with(self, inner: list[tuple[Any, Any]], depth: int) -> tuple[int, int]:
        """What a value is with those inside it."""
        count, height = 1, 0
        for node, value in inner:
            more, deeper = self._of(node, value, depth + 1)
            count, height = count + more, max(height, 1 + deeper)
            if count > _VALUES_MAX:
                raise SerializationError(f"its defaults are more than {_VALUES_MAX} values in a record without fields.")
        return count, height
