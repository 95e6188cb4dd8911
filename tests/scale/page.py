"""The figures of `docs/scale.md`, between its markers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["PAGE", "RESULTS", "with_kept", "with_tables"]

PAGE: Final = Path(__file__).parents[2] / "docs" / "scale.md"
RESULTS: Final = Path(__file__).with_name("results.json")


def with_kept(text: str) -> str:
    """The page with the tables of the results that are kept."""
    return with_tables(text, json.loads(RESULTS.read_text()))


def with_tables(text: str, results: Mapping[str, Any]) -> str:
    """The page with the tables of these results; raises ValueError if a marker is missing."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: made by `python -m tests.scale` -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{PAGE.name} has no place for the table {name!r}.")
        text = f"{before}{begin}{make(results)}\n{end}{after}"
    return text


def _table(head: list[str], rows: Iterable[list[Any]]) -> str:
    lines = [head, ["---:"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_shown(cell) for cell in line) + " |" for line in lines)


def _shown(cell: Any) -> str:
    return cell if isinstance(cell, str) else f"{cell:,}"


def _single(results: Mapping[str, Any]) -> str:
    return _table(
        [
            "brokers",
            "partitions",
            "memory MB",
            "CPU s",
            "longest turn ms",
            "with `tune()` ms",
            "Metadata requests",
            "Metadata KB",
            "connections",
        ],
        [
            [
                row["brokers"],
                row["partitions"],
                row["memory_mb"],
                row["cpu_s"],
                row["turn_ms"],
                row["tuned_turn_ms"],
                row["metadata_requests"],
                row["metadata_kb"],
                row["connections"],
            ]
            for row in results["single"]
        ],
    )


def _crowd(results: Mapping[str, Any]) -> str:
    rows: list[list[Any]] = []
    for pair in results["crowd"]:
        rows += [[how, *_crowd_cells(pair[how])] for how in ("simulated", "computed")]
    rows += [["computed", *_crowd_cells(row)] for row in results["fleet"]]
    return _table(
        [
            "",
            "producers",
            "brokers",
            "connections of a broker",
            "Metadata requests a second, all brokers",
            "in the highest second",
        ],
        rows,
    )


def _crowd_cells(row: Mapping[str, Any]) -> list[Any]:
    return [
        row["producers"],
        row["brokers"],
        row["connections_of_a_broker"],
        row["metadata_per_s"],
        row["metadata_peak"],
    ]


def _outage(results: Mapping[str, Any]) -> str:
    rows = []
    for how in ("simulated", "modelled", "fleet"):
        row = results["outage"][how]
        attempts = row["attempts"]
        rows.append(
            [
                "simulated" if how == "simulated" else "computed",
                row["producers"],
                round(attempts[0]),
                round(sum(attempts[2:32]) / 30),
                row["peak"],
                row["steady_peak"],
                round(row["tenths_peak"], 2),
            ]
        )
    head = [
        "",
        "producers",
        "in the first second",
        "later, a second",
        "highest second / mean",
        "after 2 s",
        "tenths of a second",
    ]
    return _table(head, rows)


def _rolling(results: Mapping[str, Any]) -> str:
    row = results["rolling"]
    return _table(
        [
            "producers",
            "brokers",
            "records",
            "lost",
            "duplicated",
            "errors",
            "p50 ms",
            "p99 ms",
            "longest ms",
            "Metadata a second",
            "in the highest second",
        ],
        [
            [
                row[name]
                for name in (
                    "producers",
                    "brokers",
                    "records",
                    "lost",
                    "duplicated",
                    "errors",
                    "p50_ms",
                    "p99_ms",
                    "max_ms",
                    "metadata_per_s",
                    "metadata_peak",
                )
            ]
        ],
    )


def _cut(results: Mapping[str, Any]) -> str:
    names = (
        "records",
        "delivered",
        "expired",
        "refused",
        "lost",
        "duplicated",
        "buffer_peak_kb",
        "longest_s",
        "recovered_s",
    )
    rows = [["moved" if row["moves"] else "out of reach", *(row[name] for name in names)] for row in results["cut"]]
    head = [
        "leaders",
        "records",
        "delivered",
        "expired",
        "refused",
        "lost",
        "duplicated",
        "fullest buffer KB",
        "longest s",
        "recovered after s",
    ]
    return _table(head, rows)


TABLES: Final = {"single": _single, "crowd": _crowd, "outage": _outage, "rolling": _rolling, "cut": _cut}
