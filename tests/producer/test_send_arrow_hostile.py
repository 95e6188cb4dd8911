"""send_arrow(): rows that point out of their data fail, and nothing but the data that was given is sent."""

from __future__ import annotations

from array import array

import pyarrow as pa
import pytest

from aioprod.errors import InvalidRecordError
from aioprod.testing import FakeCluster
from tests.support.producers import running

HONEST = (0, 2, 5, 9)
LYING = (0, 60_000, 5, 9)
"""Of the bytes `hellogood`: the first row ends far behind them, the second begins there, the third is `good`."""


def lying(kind: pa.DataType) -> pa.Array:
    wide = kind in (pa.large_binary(), pa.large_string())
    offsets = pa.py_buffer(array("q" if wide else "i", LYING).tobytes())
    return pa.Array.from_buffers(kind, 3, [None, offsets, pa.py_buffer(b"hellogood")])


def lying_dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), lying(pa.binary()), safe=False)


def lying_headers() -> pa.Array:
    pairs = pa.StructArray.from_arrays([pa.array(["a", "b", "c"]), lying(pa.binary())], ["name", "value"])
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pairs)


async def check(brokers: FakeCluster, data: pa.RecordBatch) -> None:
    """Rows 0 and 1 fail, row 2 is stored."""
    stored = brokers.create_topic("good")
    async with running(brokers) as producer:
        result = await producer.send_arrow(data, topic=None if "topic" in data.schema.names else "good")
    [record] = stored.records()
    assert b"good" in (record.key, record.value, *(value for _, value in record.headers))
    assert [index for index, _ in result.failures] == [0, 1]
    for _, error in result.failures:
        assert type(error) is InvalidRecordError
        assert str(error).startswith("The offsets of an Arrow column descend, or point out of its data.")


async def test_a_stream_of_bytes_with_one_wrong_offset(brokers: FakeCluster) -> None:
    batch = pa.record_batch({"value": [b"he", b"llo", b"good"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue().to_pybytes()
    honest = array("i", HONEST).tobytes()
    assert body.count(honest) == 1
    received = pa.ipc.open_stream(body.replace(honest, array("i", LYING).tobytes())).read_next_batch()
    received.validate()  # pyarrow sees nothing wrong
    await check(brokers, received)


ROWS = {
    "large": lambda: {"value": lying(pa.large_string())},
    "dictionary": lambda: {"value": lying_dictionary()},
    "key": lambda: {"value": [b"0", b"1", b"2"], "key": lying(pa.string())},
    "topic": lambda: {"value": [b"0", b"1", b"good"], "topic": lying(pa.string())},
    "header": lambda: {"value": [b"0", b"1", b"2"], "headers": lying_headers()},
}
"""Made in the test: pytest would show an argument, and pyarrow dies of showing these."""


@pytest.mark.parametrize("name", ROWS)
async def test_offsets_of_any_column(brokers: FakeCluster, name: str) -> None:
    await check(brokers, pa.record_batch(ROWS[name]()))
