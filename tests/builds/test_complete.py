"""No module is compiled without being compared by a test of this folder."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest

import aioprod
from tests.support.builds import builds
from tools.build_ext import PACKAGE, TRANSLATED, hot_modules

USED = re.compile(r'build\["([\w.]+)"\]')
"""How a test names what it runs on both builds."""

FREELIST = re.compile(r"@cython.freelist\((\d+)\)\ncdef class (\w+)")
LISTS = [
    (declaration.with_suffix(".c"), size, name)
    for declaration in sorted(PACKAGE.rglob("*.pxd"))
    for size, name in FREELIST.findall(declaration.read_text())
]

HOT = sorted(extension.name for extension in hot_modules())


def run_on_both() -> set[str]:
    """The modules that the tests of this folder name, and those whose classes and functions these modules use."""
    interpreted = builds()[1]
    # Its names are those of all clients; what tests use of them is in the modules that they name beside it.
    found = {aioprod.__name__}
    waiting = [name for path in Path(__file__).parent.glob("test_*.py") for name in USED.findall(path.read_text())]
    while waiting:
        name = waiting.pop()
        if name in interpreted and name not in found:
            found.add(name)
            values = vars(interpreted[name]).values()
            waiting += [getattr(value, "__module__", None) or getattr(value, "__name__", "") for value in values]
    return found


def test_every_compiled_module_is_compared() -> None:
    left_out = sorted(set(HOT) - run_on_both())
    are_all_compared = not left_out
    assert are_all_compared, f"No test in tests/builds runs these on both builds; add one with `check_same`: {left_out}"


@pytest.mark.parametrize("name", HOT)
def test_each_build_runs_its_own_modules(name: str) -> None:
    compiled, interpreted = (Path(build[name].__file__) for build in builds())
    assert compiled.name.endswith(str(sysconfig.get_config_var("EXT_SUFFIX")))
    assert interpreted.suffix == ".py"


@pytest.mark.parametrize(("in_c", "size", "name"), LISTS, ids=[name for _, _, name in LISTS])
def test_dead_objects_of_declared_classes_are_kept(in_c: Path, size: str, name: str) -> None:
    """Cython 3 forgets the directive of a .pxd where the class has a .py: see `keep_freelists`."""
    translated = (TRANSLATED / in_c).read_text()
    assert re.search(rf"freecount_\w*{name} < {size}\b", translated)


def test_some_classes_have_lists_of_dead_objects() -> None:
    assert {"ConsumedRecord", "RecordMetadata"} <= {name for _, _, name in LISTS}
