"""The tables of docs/metrics.md, made from the metrics of the clients.

Each stands after its `<!-- metrics: module:Class -->`; `tools.generate` writes them.
"""

from __future__ import annotations

import re
from pkgutil import resolve_name
from typing import Final

from aioprod.metrics import Metrics

__all__ = ["filled", "metrics_table"]

_PLACE: Final = re.compile(r"(<!-- metrics: ([\w.:]+) -->)\n(?:\|.*\n)*")
_HEAD: Final = "| collected as | kind | unit | labels | in a snapshot | meaning |\n|---|---|---|---|---|---|\n"
_UNITS: Final = {"1": "", "s": "s", "By": "bytes"}


def metrics_table(metrics: Metrics) -> str:
    """A row for each family, with the names that it has in a snapshot."""
    return _HEAD + "".join(_row(metrics, name) for name in sorted(_families(metrics)))


def _families(metrics: Metrics) -> list[str]:
    return [family.name for family in metrics.families()]


def _row(metrics: Metrics, name: str) -> str:
    family = next(family for family in metrics.families() if family.name == name)
    labels = ", ".join(f"`{label}`" for label in ("client_id", *family.labels))
    snapshot = ", ".join(f"`{key}`" for key in metrics.snapshot_names().get(name, ()))
    return (
        f"| `aioprod_{name}` | {family.kind} | {_UNITS[family.unit.symbol]} | {labels} | {snapshot} | {family.doc} |\n"
    )


def filled(page: str) -> str:
    """The page with its tables as they have to be, whatever they were."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{metrics_table(resolve_name(place[2])())}", page)
