"""What users give as callbacks: plain functions of two arguments, looked at before they are first called."""

from __future__ import annotations

import inspect
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType
from typing import Any, Final
from weakref import ref

from aioprod.errors import UsageError

__all__ = ["UNWATCHED", "DeliveryCallbacks", "error_callback"]

UNWATCHED: Final = object()
"""Returned by a callback of aioprod's own for a failed record: report it as one that no caller waits for."""

KNOWN_MAX: Final = 64
"""Callbacks by the code behind them; a program has a few."""

_NAMES_OF_ERRORS: Final = frozenset({"err", "error", "ex", "exc", "exception"})


class DeliveryCallbacks:
    """Raises for a wrong `on_delivery` at its first use; callables made at the same place in the code are checked once.

    A bound method, a closure or a partial is often made for each record. So it is the code behind it that is
    remembered, with the arguments that a partial puts before; and the last one apart, which costs some comparisons.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], object] = {}
        self._last: object = None
        self._before = 0

    def check(self, given: Any) -> None:
        """Raise UsageError unless `given` is no coroutine function and can be called with (metadata, error)."""
        is_bound = type(given) is partial and not given.keywords
        function, before = (given.func, len(given.args)) if is_bound else (given, 0)
        kind = type(function)
        code = function.__func__ if kind is MethodType else function.__code__ if kind is FunctionType else None
        if code is not None and code is self._last and before == self._before:
            return
        key, behind = _origin(given)
        if self._known.get(key, self) is not behind:
            _check(given, "on_delivery", ("metadata", "error"))
            _check_order(given)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = behind
        self._last, self._before = code, before


def error_callback(given: Any) -> Any:
    """Check the caller's `on_error`, which may be None; raises UsageError for a wrong signature."""
    if given is not None:
        _check(given, "on_error", ("error", "record"))
    return given


def _origin(given: Any) -> tuple[tuple[object, ...], object]:
    """What callbacks that need one look have in common, and what stands behind it, which is to be the same as well.

    Behind a callable in C it is the object alone, by a weak reference: its type says nothing of how it is called.
    """
    bound: tuple[object, ...] = ()
    while isinstance(given, partial) and type(given).__call__ is partial.__call__:
        bound += (len(given.args), *given.keywords)
        given = given.func
    kind = type(given)
    if kind in (BuiltinMethodType, MethodWrapperType):
        return (type(given.__self__), getattr(given, "__module__", None), given.__name__, *bound), None
    behind: object
    if kind is FunctionType:
        behind = given.__code__
    elif kind is MethodType:
        behind = given.__func__
    elif isinstance(given, type):
        behind = given
    elif isinstance(getattr(kind, "__call__", None), FunctionType):  # noqa: B004  # what it is, not whether it is
        behind = kind
    else:
        try:
            return (id(given), *bound), ref(given)
        except TypeError:
            return (id(given), *bound), object()  # Never the same: it is looked at each time.
    return (id(behind), *bound), behind


def _check(given: Any, name: str, arguments: tuple[str, str]) -> None:
    called_as = f"It is called as {name}({', '.join(arguments)})."
    if not callable(given) or _has_to_be_awaited(given):
        raise UsageError(
            f"{name} is {given!r:.100}, which is not a plain function: give a callable, or None.",
            hint="Let it start a task for what has to be awaited." if callable(given) else called_as,
        )
    try:
        inspect.signature(given, follow_wrapped=False).bind(None, None)
    except ValueError:
        return  # A callable in C without a signature.
    except TypeError as error:
        raise UsageError(
            f"{name} is {given!r:.100}, which can't be called with two arguments: {error}.",
            hint=called_as,
        ) from error


def _has_to_be_awaited(given: Any) -> bool:
    while isinstance(given, partial):
        given = given.func
    call = getattr(type(given), "__call__", None)  # noqa: B004  # what it is, not whether it is
    return any(
        is_kind(function)
        for function in (given, call)
        for is_kind in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    )


def _check_order(given: Any) -> None:
    """confluent-kafka's callbacks get the error first: taken over as they are, they would mistake each outcome."""
    try:
        parameters = list(inspect.signature(given, follow_wrapped=False).parameters.values())[:2]
    except ValueError:
        return
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    is_error = [name.strip("_").lower() in _NAMES_OF_ERRORS for name in names]
    if is_error in ([True], [True, False]):
        raise UsageError(
            f"on_delivery is {given!r:.100}, whose first argument is named {names[0]!r}: it is called as "
            "on_delivery(metadata, error), the error second.",
            hint="Change the order of its arguments; confluent-kafka's callbacks get the error first.",
        )
