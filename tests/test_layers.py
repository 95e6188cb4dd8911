"""The design has the rooms of the layers, in the order that the linter keeps, and names only what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "design.md").read_text()
PACKAGE = ROOT / "aioprod"
PRIVATE = "_"


def contract(kind: str) -> dict[str, list[str]]:
    """The first contract of a kind."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(each for each in contracts if each["type"] == kind)


def room(name: str) -> str:
    """A room as the page names it."""
    return name.strip().removeprefix("aioprod.")


def test_the_table_of_rooms_has_the_order_of_the_layers() -> None:
    layers = [room(name) for layer in contract("layers")["layers"] for name in layer.split("|")]
    table = PAGE.partition("| room | what is in it |\n|---|---|\n")[2].partition("\n\n")[0]
    named = [name.rstrip("/") for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    public = [name for name in layers if not name.startswith(PRIVATE)]
    assert [name for name in named if not name.startswith(PRIVATE)] == public
    assert {name for name in named if name.startswith(PRIVATE)} <= set(layers)


def test_each_module_is_in_a_layer() -> None:
    layers = {room(name) for layer in contract("layers")["layers"] for name in layer.split("|")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert modules - layers == {"__init__", "__main__"}


def test_each_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    known = {
        path for root in (ROOT, PACKAGE) for path in map(str, (each.relative_to(root) for each in root.rglob("*.py")))
    }
    assert {name for name in named if not any(path == name or path.endswith(f"/{name}") for path in known)} == set()


def test_each_class_beside_one_of_java_is_there() -> None:
    table = PAGE.partition("| Java's client | here |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`([A-Z]\w+)`", row.split("|")[2])}
    classes = {
        name for path in PACKAGE.rglob("*.py") for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
    }
    assert named
    assert named - classes == set()
