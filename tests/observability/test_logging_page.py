"""The page about logging: its events are those of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import aioprod
from tests.support.snippets import ROOT

PAGE = (ROOT / "docs" / "logging.md").read_text()
ROWS = re.findall(r"^\| [^|]+ \| `([\w.]+)` \| ([A-Z, ]+) \|", PAGE, re.MULTILINE)
LISTED = {(logger, level) for logger, levels in ROWS for level in levels.split(", ")}

LEVELS = {"info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}
ROOMS = (
    "calls",
    "compat",
    "config",
    "group",
    "interceptors.py",
    "net",
    "observability",
    "producer",
    "reader",
    "schema_registry",
)


def sources() -> Iterator[Path]:
    """The modules that log."""
    package = Path(aioprod.__file__).parent
    for room in ROOMS:
        place = package / room
        yield from [place] if place.suffix else sorted(place.rglob("*.py"))


def written() -> set[tuple[str, str]]:
    """The loggers and levels of all calls in the code whose level is fixed, DEBUG left out."""
    found = set()
    for source in sources():
        tree = ast.parse(source.read_text())
        names = dict(re.findall(r'^(_logger) = Logger\("([\w.]+)"\)', source.read_text(), re.MULTILINE))
        if "import MemberLog" in source.read_text():
            # Its lines go to one logger, whatever holds it.
            names |= dict.fromkeys(("self._logger", "logger", "log"), "aioprod.group")
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                of = ast.unparse(call.func.value)
                if of in names and call.func.attr in LEVELS:
                    found.add((names[of], LEVELS[call.func.attr]))
    return found


def test_each_logger_is_one_that_does_not_raise() -> None:
    assert [source for source in sources() if "= logging.getLogger(" in source.read_text()] == []


def test_each_module_names_its_logger_alike() -> None:
    assert [
        source for source in sources() if re.search(r"^(?!_logger\b)\w+ = Logger\(", source.read_text(), re.MULTILINE)
    ] == []


def test_each_logger_and_level_is_listed() -> None:
    assert len(written()) > 8
    assert written() - LISTED == {("aioprod", "INFO"), ("aioprod.net", "INFO")}, "once, when settings are read"


def test_the_loggers_are_those_of_the_table() -> None:
    assert {logger for logger, _ in LISTED} == set(re.findall(r"^\| `(aioprod[\w.]*)` \|", PAGE, re.MULTILINE))
