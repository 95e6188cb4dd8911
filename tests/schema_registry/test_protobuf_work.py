"""Protobuf: memory and look-ups of a message are bounded by its bytes, or the record is refused before it is parsed."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from aioprod.errors import SerializationError
from aioprod.schema_registry import ProtobufDeserializer, Schema, SchemaRegistry, protobuf_work
from aioprod.schema_registry.protobuf_work import MessageWork

F = FieldDescriptorProto
SCALARS = [F.TYPE_INT64, F.TYPE_STRING, F.TYPE_BOOL, F.TYPE_DOUBLE, F.TYPE_FIXED32, F.TYPE_SINT32]
KEYS = [F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT64, F.TYPE_SINT64, F.TYPE_FIXED64, F.TYPE_STRING]

names = map("m{}".format, count())


class Types:
    """Types of messages in a file; the first one is read."""

    def __init__(self) -> None:
        self._package = next(names)
        self._file = FileDescriptorProto(name=f"{self._package}.proto", package=self._package, syntax="proto3")

    def message(self, name: str) -> DescriptorProto:
        return self._file.message_type.add(name=name)

    def add(self, to: DescriptorProto, kind: Any, *, repeated: bool = False, number: int = 0) -> FieldDescriptorProto:
        number = number or len(to.field) + 1
        label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
        added = to.field.add(name=f"f{number}", number=number, label=label)
        if isinstance(kind, str):
            added.type, added.type_name = F.TYPE_MESSAGE, f".{self._package}.{kind}"
        else:
            added.type = kind
        return added

    def add_map(self, to: DescriptorProto, key: Any, value: Any) -> None:
        entry = to.nested_type.add(name=f"F{len(to.field) + 1}Entry")
        entry.options.map_entry = True
        self.add(entry, key).name = "key"
        self.add(entry, value).name = "value"
        self.add(to, f"{to.name}.{entry.name}", repeated=True)

    def made(self) -> type[Message]:
        pool = DescriptorPool()
        pool.AddSerializedFile(self._file.SerializeToString())
        return GetMessageClass(pool.FindMessageTypeByName(f"{self._package}.{self._file.message_type[0].name}"))


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(encoded) + bytes([number])


def entries(keys: list[int]) -> bytes:
    return b"".join(b"\x0a" + bytes([1 + len(varint(key))]) + b"\x08" + varint(key) for key in keys)


def work_of(message_type: type[Message]) -> MessageWork:
    return MessageWork(message_type.DESCRIPTOR)


def wide(fields: int, *, repeated: bool = True) -> type[Message]:
    types = Types()
    types.add(types.message("Order"), "Line", repeated=repeated)
    line = types.message("Line")
    for _ in range(fields):
        types.add(line, F.TYPE_STRING)
    return types.made()


async def test_messages_that_two_bytes_make(registry: SchemaRegistry) -> None:
    """Of 500 fields: 4 KB of memory each."""
    decode, _ = await ProtobufDeserializer(registry, wide(500))._decoder(Schema("", "PROTOBUF"))
    assert len(decode(b"\x0a\x00" * 2_000).f1) == 2_000
    with pytest.raises(SerializationError, match="its messages would take more than 26777216 bytes of memory"):
        decode(b"\x0a\x00" * 5_000)
    full = b"".join(varint(number << 3 | 2) + b"\x02ab" for number in range(1, 501))
    line = b"\x0a" + varint(len(full)) + full
    assert len(decode(line * 20).f1) == 20


@pytest.mark.parametrize(
    ("message_type", "size", "is_walked"),
    [
        (wide(100), 10_000_000, False),
        (wide(500), 5_000, False),
        (wide(500), 10_000, True),
    ],
)
def test_most_records_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, message_type: type[Message], size: int, is_walked: bool
) -> None:
    walked = []

    class Watched:
        def __init__(self, payload: bytes) -> None:
            walked.append(len(payload))

        def through(self, root: object) -> None:
            """Nothing."""

    monkeypatch.setattr(protobuf_work, "_Walk", Watched)
    work_of(message_type).check(bytes(size))
    assert walked == [size] * is_walked


@pytest.mark.parametrize("key", [F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64])
def test_keys_that_have_one_place_in_the_table(key: Any) -> None:
    types = Types()
    types.add_map(types.message("Order"), key, F.TYPE_INT32)
    work = work_of(types.made())
    for ordinary in (range(10_000, 30_000), [number * 1_000 for number in range(20_000)]):
        work.check(entries(list(ordinary)))
    colliding = [number << 16 for number in range(10_000)]
    if key in (F.TYPE_INT64, F.TYPE_UINT64):
        colliding = [number << 32 | number for number in range(10_000)]
    with pytest.raises(SerializationError, match=r"the keys of its maps need more than \d+ comparisons"):
        work.check(entries(colliding))
    work.check(entries(colliding[:1_000]) * 10)  # The same ones.


def test_bits_that_a_key_does_not_have() -> None:
    types = Types()
    types.add_map(types.message("Order"), F.TYPE_INT32, F.TYPE_INT32)
    drawn = random.Random(1)
    keys = [drawn.getrandbits(31) << 32 | number << 16 for number in range(10_000)]
    with pytest.raises(SerializationError, match="comparisons"):
        work_of(types.made()).check(entries(keys))


def test_a_map_that_comes_in_parts() -> None:
    """Each time that a message comes that is not repeated, it is the same one, and so is its map."""
    colliding = [number << 32 | number for number in range(10_000)]
    parts = b"".join(b"\x0a" + varint(len(entry)) + entry for entry in (entries([key]) for key in colliding))
    for repeated in (False, True):
        types = Types()
        types.add(types.message("Order"), "Line", repeated=repeated)
        types.add_map(types.message("Line"), F.TYPE_INT64, F.TYPE_STRING)
        work = work_of(types.made())
        if repeated:
            work.check(parts)
            continue
        with pytest.raises(SerializationError, match="comparisons"):
            work.check(parts)


class Generated:
    """Draws types of messages and bytes that look like theirs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def message_type(self) -> type[Message]:
        types = Types()
        given = [f"M{number}" for number in range(self._random.randint(1, 4))]
        for name in given:
            message = types.message(name)
            for _ in range(self._random.randint(0, 6)):
                kind = self._random.choice([*SCALARS, *given, *given])
                if self._random.random() < 0.2:
                    types.add_map(message, self._random.choice(KEYS), kind)
                    continue
                added = types.add(message, kind, repeated=self._random.random() < 0.5)
                if added.label == F.LABEL_OPTIONAL and self._random.random() < 0.3:
                    if not message.oneof_decl:
                        message.oneof_decl.add(name="choice")
                    added.oneof_index = 0
        return types.made()

    def payload(self, depth: int = 3) -> bytes:
        parts = bytearray()
        for _ in range(self._random.randint(0, 5)):
            tag = self._random.randint(1, 7) << 3
            if self._random.random() < 0.7:
                inner = self.payload(depth - 1) if depth else b""
                parts += varint(tag | 2) + varint(len(inner)) + inner
            elif self._random.random() < 0.8:
                parts += varint(tag) + varint(self._random.choice([0, 1, 2**40]))
            else:
                parts += bytes([self._random.choice([tag | 3, tag | 4, tag | 5, 0xFF])])
        return bytes(parts)


def messages_in(message: Any) -> list[Any]:
    """The messages inside a message, with those inside them."""
    found: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = list(value.values()) if field.message_type.fields_by_number[2].message_type is not None else []
            found += [each for value_ in inner for each in (value_, *messages_in(value_))]
            continue
        for each in [value] if isinstance(value, Message) else value:
            found += [each, *messages_in(each)]
    return found


def test_generated_types_keep_to_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of the messages that were parsed <= what the walk allowed, in bytes that are counted and not measured."""
    monkeypatch.setattr(protobuf_work, "_MEMORY", 64)
    monkeypatch.setattr(protobuf_work, "_MEMORY_PER_BYTE", 6)
    read = refused = cut = 0
    for seed in range(300):
        generated = Generated(seed)
        message_type = generated.message_type()
        work = work_of(message_type)
        for _ in range(10):
            payload = generated.payload()
            try:
                work.check(payload)
            except SerializationError:
                refused += 1
                continue
            message = message_type()
            try:
                message.ParseFromString(payload)
            except DecodeError:
                cut += 1
                continue
            read += 1
            memory = sum(32 + 16 * len(each.DESCRIPTOR.fields) for each in messages_in(message))
            assert memory <= 64 + 6 * len(payload), (seed, payload)
    assert read
    assert refused
    assert cut
