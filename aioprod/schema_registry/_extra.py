"""The error of a package that the extra `aioprod[schema-registry]` would have installed."""

from __future__ import annotations

from aioprod.errors import UsageError

__all__ = ["missing"]


def missing(module: str, error: ImportError) -> UsageError:
    """What to raise when `module` can't be imported for lack of a package."""
    return UsageError(
        f"{module} needs {error.name or 'a package'}, which is not installed.",
        hint="pip install 'aioprod[schema-registry]'",
    )
