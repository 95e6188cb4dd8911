"""Columns of an input that can be read cheaply without Spark: a mistyped name is an error before Spark starts."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from aioprod.errors import ConfigError
from aioprod.spark.inputs import check_source, local_path

__all__ = ["check_columns"]

_JSON_MAX: Final = 1 << 20
"""Bytes of lines of JSON, all of which have to be read, as any may have a column of its own."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NO_COLUMNS: Final = frozenset({"null", "true", "false", "user", "session_user", "localtimestamp"})
"""With those that begin with `current_`, names that Spark knows without a column and without parentheses."""


def check_columns(source: str, expressions: Mapping[str, str | None]) -> None:
    """Raise ConfigError for an expression that is no more than a name which no column has, and for an input that
    there is none of.

    `expressions` are those of a user, by what they are for. Only single files of this machine are looked into: the
    columns of a folder come from its files and from its subfolders, and the first of them need not have all.
    """
    columns = _columns(source)
    if columns is None:
        return
    known = {name.strip().lower() for name in columns}
    for what, expression in expressions.items():
        name = (expression or "").strip()
        if _NAME.fullmatch(name) is None or name.lower() in known | _NO_COLUMNS or name.lower().startswith("current_"):
            continue
        near = get_close_matches(name, columns, n=1)
        raise ConfigError(
            f"The expression for {what}, {name}, can't be used: the input {source!r} has no such column.",
            hint=f"Did you mean {near[0]}?" if near else f"It has {', '.join(columns)}.",
        )


def _columns(source: str) -> list[str] | None:
    """The names of the columns in order, None where they are not known."""
    kind, place = check_source(source)
    path = None if kind == "table" else local_path(place)
    if path is None or not path.is_file():
        return None
    try:
        return {"csv": _of_csv, "json": _of_json, "parquet": _of_parquet}[kind](path)
    except (OSError, ValueError, csv.Error):  # Spark says what is wrong with it.
        return None


def _of_csv(path: Path) -> list[str] | None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(_JSON_MAX)
    names = next(csv.reader([line]), [])
    # Empty and repeated names get other names, and a name may continue in the next line.
    is_plain = all(name.strip() for name in names) and len(set(names)) == len(names) and line.count('"') % 2 == 0
    return names if names and is_plain else None


def _of_json(path: Path) -> list[str] | None:
    if path.stat().st_size > _JSON_MAX:
        return None
    names: dict[str, None] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                return None
            names.update(dict.fromkeys(row))
    return list(names) or None


def _of_parquet(path: Path) -> list[str] | None:
    try:
        from pyarrow import parquet
    except ImportError:
        return None
    return list(parquet.read_schema(path).names)
