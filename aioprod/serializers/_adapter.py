"""One form for every serializer and deserializer, worked out once and not for each record."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar

from aioprod.config import close_instance, describe, instantiate
from aioprod.errors import AioprodError, ConfigError, SerializationError, UsageError

if TYPE_CHECKING:
    from aioprod.config import ProducerConfig
    from aioprod.serializers._formats import HeaderList


class _Adapter:
    """`is_async` says that each call returns an awaitable."""

    __slots__ = ("_call", "_role", "_target", "_value_only", "is_async")

    _method: ClassVar[str]
    _sentence: ClassVar[str]

    def __init__(self, target: Any, *, is_key: bool) -> None:
        self._target = target
        self._role = "key" if is_key else "value"
        self._call, self._value_only = _entry(target, self._method)
        self.is_async = _is_coroutine_function(self._call)
        """Whether each call returns an awaitable. Where it does not, a function may still return one."""

    def close(self) -> None:
        """Close what is adapted, if it can be closed; a failure is logged."""
        close_instance(self._target)

    def _invoke(self, topic: str, headers: HeaderList, given: Any) -> Any:
        return self._call(given) if self._value_only else self._call(topic, headers, given)

    def _failure(self, topic: str, error: Exception) -> SerializationError:
        subject = self._sentence.format(role=self._role, topic=topic, name=describe(self._target))
        if isinstance(error, SerializationError):
            # Of its own kind still: a schema registry's errors are more than this class.
            return error.restated(f"{subject}: {error.message}", hint=error.hint)
        if isinstance(error, AioprodError):
            return SerializationError(f"{subject}: {error.message}", hint=error.hint)
        return SerializationError(f"{subject}: {type(error).__name__}: {error}.")


class Serializer(_Adapter):
    """The one form in which the producer calls any serializer; raises ConfigError for an object that is none."""

    __slots__ = ()

    _method = "serialize"
    _sentence = "The {role} of a record for topic {topic!r} could not be serialized by {name}"

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes | Awaitable[bytes | None] | None:
        """Return the bytes of `value`, None if it is null, or an awaitable of these.

        Raises SerializationError (now, or when awaited) that names the topic, its cause being what went wrong.
        """
        result = self._called(topic, headers, value)
        if type(result) is bytes:
            return result
        if inspect.isawaitable(result):
            return self._awaited(topic, result)
        return self._as_bytes(topic, result)

    def serialize_now(self, topic: str, headers: HeaderList, value: Any) -> bytes | None:
        """The same for callers that can't wait: raises UsageError where the bytes would have to be awaited."""
        result = self._called(topic, headers, value)
        if type(result) is bytes:
            return result
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            # Those of a schema registry have it.
            prepare = " Or `await serializer.prepare(topic)` first." if hasattr(self._target, "prepare") else ""
            raise UsageError(
                f"The {self._role} serializer for topic {topic!r} has to be awaited, which this call can't do.",
                hint=f"Use `await send()` or `await send_many()`.{prepare}",
            )
        return self._as_bytes(topic, result)

    def _called(self, topic: str, headers: HeaderList, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self._invoke(topic, headers, value)
        except Exception as error:
            raise self._failure(topic, error) from error

    async def _awaited(self, topic: str, pending: Awaitable[Any]) -> bytes | None:
        try:
            result = await pending
        except Exception as error:
            raise self._failure(topic, error) from error
        return self._as_bytes(topic, result)

    def _as_bytes(self, topic: str, result: Any) -> bytes | None:
        if type(result) is bytes or result is None:
            return result
        if isinstance(result, (bytes, bytearray, memoryview)):
            return bytes(result)
        wrong = SerializationError(f"it returned {type(result).__qualname__} instead of bytes or None.")
        raise self._failure(topic, wrong)


class Deserializer(_Adapter):
    """The one form in which any deserializer is called; raises ConfigError for an object that is none."""

    __slots__ = ()

    _method = "deserialize"
    _sentence = "The {role} of a record from topic {topic!r} could not be deserialized by {name}"

    def deserialize(self, topic: str, headers: HeaderList, data: bytes | None) -> Any:
        """Return the object that `data` stands for (None for a null), or an awaitable of it; always one if `is_async`.

        Raises SerializationError (now, or when awaited) that names the topic, its cause being what went wrong.
        """
        if data is None:
            return _null() if self.is_async else None
        try:
            result = self._invoke(topic, headers, data)
        except Exception as error:
            raise self._failure(topic, error) from error
        return self._awaited(topic, result) if inspect.isawaitable(result) else result

    async def _awaited(self, topic: str, pending: Awaitable[Any]) -> Any:
        try:
            return await pending
        except Exception as error:
            raise self._failure(topic, error) from error


async def _null() -> None:
    pass


def as_serializer(target: Any, *, is_key: bool) -> Serializer:
    """Adapt an object with `serialize`, or a function; raises ConfigError for anything else."""
    return Serializer(target, is_key=is_key)


def as_deserializer(target: Any, *, is_key: bool) -> Deserializer:
    """Adapt an object with `deserialize`, or a function; raises ConfigError for anything else."""
    return Deserializer(target, is_key=is_key)


def make_serializer(config: ProducerConfig, *, is_key: bool) -> Serializer | None:
    """Create, configure and adapt the serializer that `config` names for keys or for values; None if it names none.

    Raises ConfigError.
    """
    given = config.key_serializer if is_key else config.value_serializer
    if given is None:
        return None
    return as_serializer(instantiate(given, "serializer", config, is_key=is_key), is_key=is_key)


def _entry(target: Any, method: str) -> tuple[Callable[..., Any], bool]:
    """Return what to call, and whether it gets the value alone instead of (topic, headers, value)."""
    bound = getattr(target, method, None)
    if callable(bound):
        if _takes(bound, 3):
            return bound, False
        raise ConfigError(f"{describe(target)}.{method} must take (topic, headers, value).")
    if not callable(target):
        raise ConfigError(
            f"{target!r} is not a {method}r: it has no method {method!r} and can't be called.",
            hint=f"Give a function of the value, or an object with {method}(topic, headers, value).",
        )
    if _takes(target, 1):
        return target, True
    if _takes(target, 3):
        return target, False
    raise ConfigError(
        f"The {method}r {describe(target)} must take one argument, the value, or three, (topic, headers, value)."
    )


def _takes(call: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(call).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        # Some functions that are written in C have no signature. Those that convert take the value.
        return count == 1
    return True


def _is_coroutine_function(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
