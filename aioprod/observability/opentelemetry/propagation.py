"""The context of a trace in the headers of a record, by the process's global propagator: W3C's, unless it was set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import SpanContext

from aioprod.types import Headers

__all__ = ["extracted", "span_contexts", "with_context"]

_APART: Final = {"baggage"}
"""What a context carries beside the span, so that the user's does not keep the span's away."""


class _HeaderGetter(Getter[Headers]):
    """Reads headers; of a name that repeats the last one counts, as in Java's instrumentation."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        for name, value in reversed(carrier):
            if name.lower() == key.lower() and isinstance(value, (bytes, bytearray, memoryview)):
                return [bytes(value).decode("utf-8", "replace")]
        return None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_GETTER = _HeaderGetter()


def extracted(headers: Headers, context: Context | None = None) -> Context:
    """The context that the headers of a record carry, added to `context`, by default the current one."""
    return propagate.extract(headers, context=context, getter=_GETTER)


def span_contexts(several: Iterable[Any]) -> Iterator[SpanContext]:
    """The contexts of spans in the headers of several records; what is not a header is passed over."""
    fields = {field.lower() for field in propagate.get_global_textmap().fields}
    for headers in several:
        valid = _valid(headers)
        if not fields.isdisjoint(name.lower() for name, _ in valid):
            context = trace.get_current_span(extracted(valid, Context())).get_span_context()
            if context.is_valid:
                yield context


def with_context(headers: Any, context: Context) -> Any:
    """The headers, and after them those of the context that are missing; none where they carry another span's.

    Headers that are invalid stay as they are, for the producer's error to name them.
    """
    if headers is not None and not isinstance(headers, Sequence):
        return headers
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context=context)
    given = list(headers or ())
    taken = {name.lower() for name, _ in _valid(given)}
    if taken & {name.lower() for name in carrier} - _APART:
        return given
    return given + [(name, value.encode()) for name, value in carrier.items() if name.lower() not in taken]


def _valid(headers: Any) -> list[tuple[str, bytes | None]]:
    if not isinstance(headers, Sequence):
        return []
    return [
        (one[0], one[1])
        for one in headers
        if isinstance(one, (tuple, list)) and len(one) == 2 and isinstance(one[0], str)
    ]
