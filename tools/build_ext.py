"""Builds the compiled modules: each module of aioprod with a .pxd beside it, from the source that also runs as Python.

All of them or none are compiled, since they use each other's C structures. Without a working compiler aioprod installs
as plain Python, with a warning; AIOPROD_REQUIRE_EXT=1 makes that an error, AIOPROD_NO_EXT=1 chooses it.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

PACKAGE = Path("aioprod")
TRANSLATED = Path("build/cython")

ONLY_DECLARED = {"memory", "native"}
"""Modules whose .pxd is their whole compiled form."""

DIRECTIVES = {
    "language_level": "3",
    "annotation_typing": False,
    "cdivision": True,
    "initializedcheck": False,
}
"""Annotations are for mypy: the types of the compiled build stand in the .pxd files. Modules whose indexes are proven
say so in their first line."""

OPTIONS = {
    "unix": [
        "-O2",
        "-g0",
        "-Werror=implicit-function-declaration",
        # About helpers that Cython writes for each module, whether it needs them or not.
        "-Wno-unused-function",
        "-Wno-array-bounds",
    ],
    "msvc": ["/O2"],
}
"""For the compiler, by its family; added to those that Python itself was built with."""

SHARED = "aioprod._cython"
"""The module with the helpers that Cython would put into each of the others: a fifth of what there is to compile."""

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))

_CIMPORT = re.compile(r"^from ([\w.]+) cimport (.+)$", re.MULTILINE)


def declarations_of(declaration: Path, found: set[Path] | None = None) -> set[Path]:
    """The .pxd itself and all that it cimports, directly or not: what lays out the objects its module uses."""
    found = set() if found is None else found
    if declaration.exists() and declaration not in found:
        found.add(declaration)
        for package, names in _CIMPORT.findall(declaration.read_text()):
            folder = Path(*package.split("."))
            for used in [folder.with_suffix(".pxd"), *(folder / f"{name.strip()}.pxd" for name in names.split(","))]:
                declarations_of(used, found)
    return found


def hot_modules() -> list[Extension]:
    """One extension per declared module, with all it must be built again for."""
    return [
        Extension(
            ".".join(declaration.with_suffix("").parts),
            [str(declaration.with_suffix(".py"))],
            depends=[
                str(declaration.with_suffix(".py")),
                *sorted(map(str, declarations_of(declaration))),
                "tools/build_ext.py",
            ],
        )
        for declaration in sorted(PACKAGE.rglob("*.pxd"))
        if declaration.stem not in ONLY_DECLARED
    ]


def extensions() -> list[Extension]:
    """All that is compiled: the hot modules, and what they share, which is made out of nothing but Cython."""
    return [Extension(SHARED, [], depends=["tools/build_ext.py"]), *hot_modules()]


def beside_source(name: str, suffix: str) -> Path:
    """A file of the module of that name."""
    return Path(*name.split(".")).with_suffix(suffix)


def is_set(name: str) -> bool:
    """Whether an environment variable is set to something other than 0."""
    return os.environ.get(name, "") not in ("", "0")


def build_fault(*, compiled: bool) -> str | None:
    """Why the modules beside the sources must not be tested, None if they may; `compiled`: compiled ones are in use."""
    hint = "run `make compiled` (setup.py build_ext --inplace)."
    if is_set("AIOPROD_NO_EXT") or not PACKAGE.is_dir():  # The tests of an installed wheel have no sources beside them.
        return None
    if not compiled:
        return f"The compiled modules are missing: {hint}" if is_set("AIOPROD_REQUIRE_EXT") else None
    expected = {beside_source(extension.name, SUFFIX): extension for extension in extensions()}
    for built in PACKAGE.rglob(f"*{SUFFIX}"):
        if built not in expected:
            return f"{built} was compiled from declarations that are gone: {hint}"
    for built, extension in expected.items():
        if newer_group(extension.depends, str(built)):
            return f"{built} is missing or older than what it is compiled from: {hint}"
    return None


def keep_freelists() -> None:
    """Have Cython obey `@cython.freelist` in a .pxd: it forgets the directive when it comes to the class in the .py.

    That holds for this process and those that it forks.
    """
    from Cython.Compiler.Nodes import CClassDefNode

    analyse: Any = CClassDefNode.analyse_declarations

    def analyse_declarations(self: Any, env: Any) -> None:
        declared = env.lookup_here(self.class_name)
        scope = None if declared is None or declared.type is None else getattr(declared.type, "scope", None)
        size = 0 if scope is None else scope.directives.get("freelist", 0)
        analyse(self, env)
        if size and self.scope is not None:
            self.scope.directives = {**self.scope.directives, "freelist": size}

    CClassDefNode.analyse_declarations = analyse_declarations  # type: ignore[method-assign]


class BuildHotModules(build_ext):
    """Compiles all hot modules, or leaves them all to the interpreter."""

    extensions: list[Extension]

    def run(self) -> None:
        """Compile; without success warn, or fail if AIOPROD_REQUIRE_EXT=1."""
        # setuptools builds in place by way of the other folder, and does not take that back when it fails.
        folder = Path() if self.inplace else Path(self.build_lib)
        try:
            self._translate()
            super().run()
        except (Exception, SystemExit) as error:
            if is_set("AIOPROD_REQUIRE_EXT"):
                raise
            self.extensions = []
            self.warn(
                f"aioprod is built WITHOUT its compiled modules and will be many times slower: {error}. Install a C "
                "compiler and the Python headers, then build it again (pip install --no-cache-dir --force-reinstall)."
            )
        self._remove_others(folder)

    def _translate(self) -> None:
        """Python to C, for the modules that changed or whose declarations did; Cython alone overlooks some.

        The shared module must be made by the same Cython as the modules that use it.
        """
        from Cython.Build import cythonize
        from Cython.Utils import file_generated_by_this_cython

        keep_freelists()
        self.parallel = os.cpu_count() or 1
        stale = []
        for extension in self.extensions:
            in_c = TRANSLATED / beside_source(extension.name, ".c")
            if self.force or newer_group(extension.depends, str(in_c)) or not file_generated_by_this_cython(in_c):
                stale.append(extension)
            else:
                extension.sources = [str(in_c)]
        if stale:
            translated = cythonize(
                stale,
                build_dir=str(TRANSLATED),
                compiler_directives=DIRECTIVES,
                shared_utility_qualified_name=SHARED,
                nthreads=self.parallel if multiprocessing.get_start_method() == "fork" else 0,
                force=True,
                quiet=not self.verbose,
            )
            for extension, in_c in zip(stale, translated, strict=True):
                extension.sources = in_c.sources

    def build_extensions(self) -> None:
        """Set the compiler's options, which depend on whose it is; what takes longest first, so that all cores work."""
        self.extensions.sort(key=lambda extension: -sum(Path(source).stat().st_size for source in extension.sources))
        for extension in self.extensions:
            extension.extra_compile_args = OPTIONS.get(self.compiler.compiler_type, [])
        super().build_extensions()

    def _remove_others(self, folder: Path) -> None:
        """Compiled modules of an earlier build that this one left out: half a set of them would not work."""
        kept = {folder / beside_source(extension.name, SUFFIX) for extension in self.extensions}
        for built in (folder / PACKAGE).rglob(f"*{SUFFIX}"):
            if built not in kept:
                built.unlink()
