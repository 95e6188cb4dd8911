"""The context of a trace in the headers of a record, by the process's global propagator: W3C's, unless it was set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from aioprod.types import Headers

__all__ = ["extracted", "with_context"]


class _HeaderGetter(Getter[Headers]):
    """Reads headers; of a name that repeats the last one counts, as in Java's instrumentation."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        for name, value in reversed(carrier):
            if name.lower() == key.lower() and value is not None:
                return [value.decode("utf-8", "replace")]
        return None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_GETTER = _HeaderGetter()


def extracted(headers: Headers, context: Context | None = None) -> Context:
    """The context that the headers of a record carry, added to `context`, by default the current one."""
    return propagate.extract(headers, context=context, getter=_GETTER)


def with_context(headers: Iterable[Any] | None, context: Context) -> Headers:
    """The headers, and after them those of the context, unless the user's have one of the same name."""
    given = [] if headers is None else list(headers)
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context=context)
    names = {name.lower() for name, *_ in given if isinstance(name, str)}
    if names.isdisjoint(carrier):
        given += [(name, value.encode()) for name, value in carrier.items()]
    return given
