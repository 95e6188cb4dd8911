"""Builds the compiled leg: each module of aioprod that has a .pxd beside it, from the same source that is interpreted.

All of them or none are compiled, since they use each other's C structures. Without a working compiler aioprod installs
as plain Python, with a warning; AIOPROD_REQUIRE_EXT=1 makes that an error.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ONLY_DECLARED = {"memory"}
"""Modules whose .pxd is their whole compiled form."""

DIRECTIVES = {
    "language_level": "3",
    "annotation_typing": False,
    "cdivision": True,
    "initializedcheck": False,
}
"""Annotations are for mypy: the types of the compiled leg stand in the .pxd files. Modules whose indexes are proven say
so in their first line."""


def hot_modules() -> list[Extension]:
    """One extension per declared module; each depends on all declarations, as they lay out each other's objects."""
    declarations = sorted(Path("aioprod").rglob("*.pxd"))
    depends = [str(path) for path in declarations]
    return [
        Extension(".".join(path.with_suffix("").parts), [str(path.with_suffix(".py"))], depends=depends)
        for path in declarations
        if path.stem not in ONLY_DECLARED
    ]


class BuildHotModules(build_ext):
    """Compiles all hot modules, or leaves them all to the interpreter."""

    def run(self) -> None:
        """Compile; without success warn, or fail if AIOPROD_REQUIRE_EXT=1."""
        try:
            self._compile()
        except (Exception, SystemExit) as error:
            if os.environ.get("AIOPROD_REQUIRE_EXT", "") not in ("", "0"):
                raise
            self._leave_out()
            self.warn(
                f"aioprod is installed WITHOUT its compiled modules and will be many times slower: {error}. "
                "Install a C compiler and the Python headers, and install aioprod again."
            )

    def _compile(self) -> None:
        from Cython.Build import cythonize

        self.parallel = os.cpu_count() or 1
        translated = cythonize(
            self.extensions, build_dir="build/cython", compiler_directives=DIRECTIVES, nthreads=self.parallel
        )
        for extension, in_c in zip(self.extensions, translated, strict=True):
            extension.sources = in_c.sources
        super().run()

    def _leave_out(self) -> None:
        for extension in self.extensions:
            built = [Path(self.get_ext_fullpath(extension.name))]
            built += Path(*extension.name.split(".")[:-1]).glob(f"{extension.name.rsplit('.', 1)[1]}.*.so")
            for path in built:
                path.unlink(missing_ok=True)
        self.extensions = []

    def build_extensions(self) -> None:
        """Set the compiler's options, which depend on whose it is."""
        if self.compiler.compiler_type == "unix":
            for extension in self.extensions:
                extension.extra_compile_args = ["-O2", "-g0", "-fno-semantic-interposition"]
        super().build_extensions()


commands: dict[str, Any] = {"build_ext": BuildHotModules}
setup(ext_modules=hot_modules(), cmdclass=commands)
