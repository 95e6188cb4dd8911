"""The serializers and deserializers that come with aioprod, in the byte formats of Java's own.

They are not called with None: a null has no bytes. Their errors say what is wrong with the value alone; the adapter
adds which record it belongs to.
"""

from __future__ import annotations

import json
import operator
import struct
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, SupportsFloat, SupportsIndex, TypeAlias

from aioprod.errors import SerializationError

if TYPE_CHECKING:
    from aioprod.config import ProducerConfig

HeaderList: TypeAlias = list[tuple[str, bytes | None]]
"""The headers of one record in wire order, open to additions."""


def _wrong_type(expected: str, value: object, hint: str | None = None) -> SerializationError:
    return SerializationError(f"expected {expected}, not {type(value).__qualname__}.", hint=hint)


def _wrong_size(expected: int, data: bytes) -> SerializationError:
    return SerializationError(f"expected {expected} bytes, not {len(data)}.")


class BytesSerializer:
    """Takes bytes, bytearray and memoryview as they are."""

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Return a copy as `bytes`; raises SerializationError for anything else."""
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        hint = 'Encode it, or choose a serializer: "str", "int", "json" …'
        raise _wrong_type("bytes", value, hint)


class BytesDeserializer:
    """Gives bytes as they are."""

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> bytes:
        """Return `data`."""
        return data


class StringSerializer:
    """str to bytes in `encoding`; the settings `serializer.encoding` and `key.` or `value.serializer.encoding` win."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def configure(self, config: ProducerConfig, *, is_key: bool) -> None:
        """Take over the encoding that the configuration names, if any."""
        own = config.key_serializer_encoding if is_key else config.value_serializer_encoding
        self.encoding = own or config.serializer_encoding or self.encoding

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Return the encoded string; raises SerializationError for another type or an unencodable character."""
        if not isinstance(value, str):
            raise _wrong_type("str", value)
        try:
            return value.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(f"the string can't be encoded in {self.encoding}: {error.reason}.") from error


class StringDeserializer:
    """Bytes in `encoding` to str."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> str:
        """Return the decoded string; raises SerializationError for bytes that are none."""
        try:
            return data.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise SerializationError(f"the bytes are not a string in {self.encoding}: {error.reason}.") from error


class UUIDSerializer(StringSerializer):
    """uuid.UUID to its text with hyphens, as Java does."""

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Return the encoded text of the UUID; raises SerializationError for anything else."""
        if not isinstance(value, uuid.UUID):
            raise _wrong_type("uuid.UUID", value)
        return str(value).encode(self.encoding)


class UUIDDeserializer:
    """The text of a UUID, as Java writes it, to uuid.UUID."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> uuid.UUID:
        """Return the UUID; raises SerializationError for bytes that are not the text of one."""
        try:
            return uuid.UUID(data.decode(self.encoding))
        except ValueError as error:
            raise SerializationError("the bytes are not the text of a UUID.") from error


class _WholeNumberSerializer:
    _size: ClassVar[int]

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Return the number in big-endian two's complement; raises SerializationError if it does not fit."""
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise _wrong_type("int", value)
        try:
            return operator.index(value).to_bytes(self._size, "big", signed=True)
        except OverflowError as error:
            raise SerializationError(f"the number does not fit in {self._size} bytes.") from error


class _WholeNumberDeserializer:
    _size: ClassVar[int]

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> int:
        """Return the number; raises SerializationError if `data` has another size."""
        if len(data) != self._size:
            raise _wrong_size(self._size, data)
        return int.from_bytes(data, "big", signed=True)


class ShortSerializer(_WholeNumberSerializer):
    """int to 2 bytes."""

    _size = 2


class ShortDeserializer(_WholeNumberDeserializer):
    """2 bytes to int."""

    _size = 2


class IntegerSerializer(_WholeNumberSerializer):
    """int to 4 bytes."""

    _size = 4


class IntegerDeserializer(_WholeNumberDeserializer):
    """4 bytes to int."""

    _size = 4


class LongSerializer(_WholeNumberSerializer):
    """int to 8 bytes."""

    _size = 8


class LongDeserializer(_WholeNumberDeserializer):
    """8 bytes to int."""

    _size = 8


class _RealNumberSerializer:
    _format: ClassVar[struct.Struct]

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Return the number in big-endian IEEE 754; raises SerializationError if it does not fit."""
        if isinstance(value, bool) or not isinstance(value, SupportsFloat):
            raise _wrong_type("float", value)
        try:
            return self._format.pack(float(value))
        except OverflowError as error:
            raise SerializationError(f"the number does not fit in {self._format.size} bytes.") from error


class _RealNumberDeserializer:
    _format: ClassVar[struct.Struct]

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> float:
        """Return the number; raises SerializationError if `data` has another size."""
        if len(data) != self._format.size:
            raise _wrong_size(self._format.size, data)
        return float(self._format.unpack(data)[0])


class FloatSerializer(_RealNumberSerializer):
    """float to 4 bytes, rounded to single precision."""

    _format = struct.Struct(">f")


class FloatDeserializer(_RealNumberDeserializer):
    """4 bytes to float."""

    _format = struct.Struct(">f")


class DoubleSerializer(_RealNumberSerializer):
    """float to 8 bytes."""

    _format = struct.Struct(">d")


class DoubleDeserializer(_RealNumberDeserializer):
    """8 bytes to float."""

    _format = struct.Struct(">d")


class BooleanSerializer:
    """bool to one byte, 1 or 0."""

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Return the byte; raises SerializationError for anything but a bool."""
        if not isinstance(value, bool):
            raise _wrong_type("bool", value)
        return b"\x01" if value else b"\x00"


class BooleanDeserializer:
    """One byte, 1 or 0, to bool."""

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> bool:
        """Return the bool; raises SerializationError for anything but these two bytes."""
        if data not in (b"\x00", b"\x01"):
            raise SerializationError("expected one byte, 0 or 1.")
        return data == b"\x01"


class VoidSerializer:
    """For keys or values that are always null."""

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Raise SerializationError, because a null never comes here."""
        raise _wrong_type("None", value)


class VoidDeserializer:
    """For keys or values that are always null."""

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> None:
        """Raise SerializationError, because a null never comes here."""
        raise _wrong_type("a null", data)


class JsonSerializer:
    """Any object that JSON knows to compact JSON in UTF-8. NaN and infinities are errors: JSON has none."""

    _encode = staticmethod(json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode)

    def serialize(self, topic: str, headers: HeaderList, value: Any) -> bytes:
        """Return the JSON text; raises SerializationError for an object that JSON does not know."""
        try:
            return self._encode(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            hint = "Decode it first: a producer without a serializer sends bytes." if isinstance(value, bytes) else None
            raise SerializationError(f"it can't be written as JSON: {error}.", hint=hint) from error


class JsonDeserializer:
    """JSON text to objects."""

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> Any:
        """Return the object; raises SerializationError for bytes that are not JSON."""
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise SerializationError(f"the bytes are not JSON: {error}.") from error
