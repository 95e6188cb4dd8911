"""How many parts of an Avro value no byte of a record pays for: nulls, records of nulls, defaults of a reader's schema.

One value consists of what its type has in line, through fields and branches, and of units: items of arrays, values of
maps, and types inside themselves. Each unit but an item without bytes takes bytes of its own, so that

    parts without a byte <= those in line + (most of them in a unit for each of its bytes) * (bytes of the record)
"""

from __future__ import annotations

from typing import Any, Final

from aioprod.errors import SerializationError

__all__ = ["IN_LINE_MAX", "Parts", "check_defaults", "check_parts"]

IN_LINE_MAX: Final = 10_000
"""Parts without a byte in line, and in items that take no bytes."""
_PER_BYTE_MAX: Final = 8
_DEFAULTS_OF_A_UNIT_MAX: Final = 1_000

_COUNTED_MAX: Final = 10**18
"""A tree of types has more parts than a number can be shown."""

_BYTES: Final = {"null": 0, "float": 4, "double": 8}
"""The fewest of a primitive type; one of all others."""


def check_parts(types: Any) -> int | None:
    """Raise SerializationError for more parts without a byte than the limits.

    Returns how many items that take no bytes a record may have, None where the types have no such items.
    """
    in_line, units = Parts(types, counts_defaults=False).counted()
    if in_line > IN_LINE_MAX:
        raise SerializationError(
            f"its value has {in_line:.3g} parts that take no bytes, and {IN_LINE_MAX} is the limit."
        )
    most = max((parts // taken for parts, taken in units if taken), default=0)
    if most > _PER_BYTE_MAX:
        raise SerializationError(
            f"an item of its arrays or maps, or a type inside itself, has {most:.3g} parts for each byte, and "
            f"{_PER_BYTE_MAX} is the limit."
        )
    free = [max(parts, 1) for parts, taken in units if not taken]
    return max(IN_LINE_MAX // max(free), 1) if free else None


def check_defaults(types: Any) -> None:
    """Raise SerializationError for a reader's schema that adds more fields with defaults than the limits."""
    in_line, units = Parts(types, counts_defaults=True).counted()
    of_a_unit = max((parts for parts, _ in units), default=0)
    for count, limit, of_what in (
        (in_line, IN_LINE_MAX, "a value"),
        (of_a_unit, _DEFAULTS_OF_A_UNIT_MAX, "an item of an array or map, or a type inside itself,"),
    ):
        if count > limit:
            raise SerializationError(
                f"the reader's schema gives {of_what} up to {count:.3g} fields with defaults, and {limit} is the limit."
            )


class Parts:
    """Counts, for each type once, the parts without a byte, or the fields with a default, and the fewest bytes."""

    def __init__(self, types: Any, *, counts_defaults: bool) -> None:
        self._types = types
        self._counts_defaults = counts_defaults
        self._known: dict[str, tuple[int, int] | None] = {}
        self._repeated: list[tuple[Any, int]] = []
        self._inside_themselves: set[str] = set()

    def counted(self) -> tuple[int, list[tuple[int, int]]]:
        """Parts in line, and parts and bytes of each kind of unit."""
        in_line, _ = self._of(self._types)
        units = []
        for node, of_key in self._repeated:  # grows while its own types are looked at
            parts, taken = self._of(node)
            units.append((parts, taken + of_key))
        known = (self._known[name] for name in self._inside_themselves)
        return in_line, units + [each for each in known if each is not None]

    def _of(self, node: Any) -> tuple[int, int]:
        if isinstance(node, list):
            branches = [self._of(branch) for branch in node]
            return max((parts for parts, _ in branches), default=0), 1 + min(
                (taken for _, taken in branches), default=0
            )
        if isinstance(node, str) and node not in self._known:
            return self._without_bytes(_BYTES.get(node, 1))
        kind = node if isinstance(node, str) else node["type"]
        if kind in ("array", "map"):
            self._repeated.append((node["items" if kind == "array" else "values"], int(kind == "map")))
            return 0, 1
        if kind in ("record", "error"):
            return self._of_record(node)
        if kind in self._known:
            known = self._known[kind]
            if known is None:
                self._inside_themselves.add(kind)
            return known or (0, 0)
        found = self._without_bytes(node["size"] if kind == "fixed" else _BYTES.get(kind, 1))
        if kind in ("fixed", "enum"):
            self._known[node["name"]] = found
        return found

    def _of_record(self, node: Any) -> tuple[int, int]:
        self._known[node["name"]] = None
        fields = [self._of(field["type"]) for field in node["fields"]]
        own = sum("default" in field for field in node["fields"]) if self._counts_defaults else 1
        parts, taken = own + sum(parts for parts, _ in fields), sum(taken for _, taken in fields)
        found = min(parts, _COUNTED_MAX), taken
        self._known[node["name"]] = found
        return found

    def _without_bytes(self, taken: int) -> tuple[int, int]:
        return int(taken == 0 and not self._counts_defaults), taken
