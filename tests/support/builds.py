"""Both builds in one process: the package and what supports its tests, imported once compiled and once interpreted."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any
from unittest import mock

import aioprod
from aioprod.errors import AioprodError

__all__ = ["Build", "builds", "check_same"]

LEFT_OUT = ("aioprod.testing.plugin", "aioprod.config.__main__")
SUPPORT = (
    "tests.support.accumulators",
    "tests.support.messages",
    "tests.support.producers",
    "tests.support.sequence_model",
    "tests.support.stored_batches",
)


class Build:
    """One of the two: `build["aioprod.records.builder"]` is its module of that name."""

    def __init__(self, name: str, modules: dict[str, ModuleType]) -> None:
        self.name = name
        self._modules = modules

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    @contextmanager
    def imported(self) -> Iterator[None]:
        """Have functions that import what they need import it from this build."""
        held = {name: sys.modules[name] for name in self._modules}
        sys.modules.update(self._modules)
        try:
            yield
        finally:
            sys.modules.update(held)

    def __repr__(self) -> str:
        return f"<the {self.name} build>"


@cache
def builds() -> tuple[Build, Build]:
    """The compiled build, which this process runs, and the interpreted one."""
    assert aioprod.COMPILED, "Comparing the builds takes a run of the compiled one."
    names = [*_modules_of_the_package(), *SUPPORT]
    compiled = {name: importlib.import_module(name) for name in names}
    with _imported_anew(), mock.patch.dict(os.environ, {"AIOPROD_NO_EXT": "1"}):
        interpreted = {name: importlib.import_module(name) for name in names}
        # Names that a package imports when they are used: later they would be those of the other build.
        for module in interpreted.values():
            for name in getattr(module, "__all__", ()):
                getattr(module, name)
    return Build("compiled", compiled), Build("interpreted", interpreted)


def _modules_of_the_package() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(aioprod.__path__, "aioprod.")]
    return ["aioprod", *(name for name in found if name not in LEFT_OUT)]


@contextmanager
def _imported_anew() -> Iterator[None]:
    held = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("aioprod", "tests")}
    finders = list(sys.meta_path)
    try:
        for name in held:
            del sys.modules[name]
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ("aioprod", "tests")]:
            del sys.modules[name]
        sys.modules.update(held)
        sys.meta_path[:] = finders


FAULTS = (AssertionError, AttributeError, NameError, TypeError)
"""What no call of a test may raise, unless it is one of our own errors."""


def check_same(call: Callable[[Build], object]) -> Any:
    """What `call` gives on both builds: a plain result, or the error it raises; fails where they differ."""
    compiled, interpreted = (_outcome(call, build) for build in builds())
    assert compiled == interpreted
    return compiled


def _outcome(call: Callable[[Build], object], build: Build) -> object:
    try:
        with build.imported():
            return plain(call(build))
    except Exception as error:
        if isinstance(error, FAULTS) and not isinstance(error, build["aioprod.errors"].AioprodError):
            raise
        return plain(error)


def plain(value: Any) -> Any:
    """The same for equal values of both builds, whose classes are not the same."""
    if isinstance(value, BaseException):
        ours = any(kind.__name__ == AioprodError.__name__ for kind in type(value).__mro__)
        return type(value).__name__, str(value) if ours else ""
    if isinstance(value, Enum):
        return type(value).__name__, value.name
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field.name, plain(getattr(value, field.name))) for field in dataclasses.fields(value)]
        return type(value).__name__, fields
    if type(value).__name__ in ("ConsumedRecord", "ParsedBatch"):
        return [plain(getattr(value, name)) for name in value.__match_args__]
    if isinstance(value, dict):
        return {plain(key): plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(held) for held in value]
    if isinstance(value, (set, frozenset)):
        return {plain(held) for held in value}
    return value
