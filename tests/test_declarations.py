"""Each class of a .pxd has the attributes of its Python class: a compiled object has no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECLARATIONS = sorted((ROOT / "aioprod").rglob("*.pxd"))
CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:\n((?:(?:[ \t].*)?\n)*)", re.MULTILINE)
FIELDS = re.compile(r"^    cdef (?!inline )([^(#\n]+)(?:#.*)?$", re.MULTILINE)
NAME = re.compile(r"\w+")
OF_PYTHON = {"__weakref__", "__dict__"}
"""Fields of the compiled class that any Python class has."""


def declared(declaration: str) -> dict[str, tuple[str, set[str]]]:
    """Of each class of a .pxd: the class that it extends, if any, and its own fields."""
    return {
        name: (
            base,
            {re.split(r"[\s*]", part.strip())[-1] for line in FIELDS.findall(body) for part in line.split(",")},
        )
        for name, base, body in CLASS.findall(declaration)
    }


FIELDS_OF = {name: found for path in DECLARATIONS for name, found in declared(path.read_text()).items()}


def inherited(name: str) -> set[str]:
    base = FIELDS_OF[name][0] if name in FIELDS_OF else ""
    return FIELDS_OF[base][1] | inherited(base) if base in FIELDS_OF else set()


def attributes(defined: ast.ClassDef) -> set[str]:
    """What is in `__slots__`, what a mixin annotates for the class that sets it, and what methods assign to `self`."""
    found: set[str] = set()
    for statement in defined.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__":
            slots = ast.literal_eval(statement.value)
            found.update([slots] if isinstance(slots, str) else slots)
        elif isinstance(statement, ast.AnnAssign) and statement.value is None:
            found.add(ast.unparse(statement.target))
    for node in ast.walk(defined):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.add(node.attr)
    return found


def differences(declaration: str, source: str, path: str) -> Iterator[str]:
    """A sentence for each class and attribute that only the .pxd or only the .py has."""
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    for name, (_, fields) in declared(declaration).items():
        if name not in classes:
            yield f"{path} declares a class {name} that its .py does not have: remove it."
            continue
        used = attributes(classes[name])
        for field in sorted(used - fields - inherited(name) - OF_PYTHON):
            yield (
                f"{name}.{field} is not in {path}: add it to `cdef class {name}`, as `cdef public object {field}` or "
                "with its C type. A compiled object has no other attributes, so that the first use of it would fail."
            )
        for field in sorted(fields - used - OF_PYTHON):
            yield f"{name}.{field} is in {path} only: add it to the class in the .py, or remove it from the .pxd."


@pytest.mark.parametrize("path", DECLARATIONS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_declaration_has_the_attributes_of_its_classes(path: Path) -> None:
    source = path.with_suffix(".py")
    found = list(differences(path.read_text(), source.read_text(), str(path.relative_to(ROOT))))
    is_the_same = not found  # A name of its own: pytest would print the sentences once more.
    assert is_the_same, "\n".join(found)


def test_classes_are_found() -> None:
    assert {"Accumulator", "Batch", "BrokerLink", "RecordMetadata"} <= FIELDS_OF.keys()
    assert {"position", "end"} <= inherited("RecordWalk")


DECLARED = """\
cimport cython


@cython.final
cdef class Batch:
    cdef public object topic, broker  # of its partition
    cdef unsigned char *_bytes
    cdef object _old, __weakref__

    cdef void seal(self) except *


cdef class Gone:
    cdef int count
"""
SOURCE = """\
class Batch:
    __slots__ = ("_bytes", "broker", "polished", "topic")

    def __init__(self, topic, broker):
        self.topic, self.broker = topic, broker
        self._bytes = None
        self.rough = False
"""


def test_what_one_of_the_two_lacks_is_named() -> None:
    found = list(differences(DECLARED, SOURCE, "batch.pxd"))
    assert [sentence.partition(": ")[0] for sentence in found] == [
        "Batch.polished is not in batch.pxd",
        "Batch.rough is not in batch.pxd",
        "Batch._old is in batch.pxd only",
        "batch.pxd declares a class Gone that its .py does not have",
    ]
    assert "as `cdef public object polished` or with its C type" in found[0]
