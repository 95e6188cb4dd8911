"""What libraries export: taken over and given back once, and refused with a sentence when it is something else."""

from __future__ import annotations

import gc
import weakref
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from aioprod.arrow.interface import Source, open_source
from aioprod.errors import InvalidRecordError
from tests.support.arrow import HandMade, OnlyArray, OnlyStream

BATCH = pa.record_batch({"value": pa.array([b"a", b"b"]), "key": pa.array(["k", None]).dictionary_encode()})


def lengths(source: Source) -> list[int]:
    """The lengths of all arrays of a source."""
    found = []
    while (chunk := source.next()) is not None:
        found.append(chunk.array.length)
        chunk.release()
    return found


def test_an_array_with_its_schema() -> None:
    source = open_source(OnlyArray(BATCH))
    value, key = source.field.children
    assert source.field.format == "+s"
    assert (value.name, value.format, value.dictionary) == ("value", "z", None)
    assert key.name == "key"
    assert key.dictionary is not None
    assert key.dictionary.format == "u"
    assert not source.is_lazy
    assert lengths(source) == [2]


def test_a_stream() -> None:
    source = open_source(OnlyStream(pa.Table.from_batches([BATCH, BATCH.slice(1), BATCH.slice(2)])))
    assert source.is_lazy
    assert sum(lengths(source)) == 3
    assert source.next() is None


def test_an_array_is_preferred_to_a_stream_of_one() -> None:
    assert not open_source(BATCH).is_lazy


def test_a_capsule_keeps_its_array_and_releases_it_itself() -> None:
    values = pa.array([b"x" * 100])
    gone = weakref.ref(values)
    source = open_source(pa.record_batch({"value": values}))
    before = pa.total_allocated_bytes()
    del values
    chunk = source.next()
    assert chunk is not None
    assert chunk.array.length == 1
    chunk.release()
    chunk.release()
    source.close()
    del chunk
    gc.collect()
    assert gone() is None
    assert pa.total_allocated_bytes() < before


def test_an_array_in_a_capsule_is_never_released_by_us() -> None:
    made = HandMade(BATCH)
    source = open_source(made.as_array())
    assert lengths(source) == [2]
    source.close()
    del source
    gc.collect()
    assert made.released == 0


def test_arrays_of_a_stream_are_released_once_each() -> None:
    made = HandMade(BATCH, BATCH, BATCH)
    source = open_source(made.as_stream())
    first = source.next()
    second = source.next()
    assert first is not None
    assert second is not None
    first.release()
    first.release()
    assert made.released == 1
    del first, second
    gc.collect()
    assert made.released == 2
    source.close()
    assert source.next() is None
    assert made.given == 2


def test_a_stream_that_fails_says_why() -> None:
    source = open_source(HandMade(BATCH, fail_with=b"the disk is gone").as_stream())
    assert source.next() is not None
    with pytest.raises(InvalidRecordError, match=r"could not be read: the disk is gone\."):
        source.next()


def test_a_stream_that_fails_without_a_word() -> None:
    def batches() -> Any:
        yield BATCH
        raise ValueError("no more luck")

    source = open_source(pa.RecordBatchReader.from_batches(BATCH.schema, batches()))
    assert source.next() is not None
    with pytest.raises(InvalidRecordError, match="no more luck"):
        source.next()


def test_a_stream_that_is_closed_while_a_thread_reads_is_given_back_after_that() -> None:
    entered, go_on = Event(), Event()

    class Batches:
        """Blocks as a slow disk would."""

        def __iter__(self) -> Batches:
            return self

        def __next__(self) -> pa.RecordBatch:
            entered.set()
            go_on.wait(20)
            return BATCH

    batches = Batches()
    gone = weakref.ref(batches)
    source = open_source(pa.RecordBatchReader.from_batches(BATCH.schema, batches))
    del batches
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(source.next()))
    thread.start()
    assert entered.wait(20)
    source.close()
    gc.collect()
    assert gone() is not None
    go_on.set()
    thread.join(20)
    assert found[0].array.length == 2
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("data", [None, 5, b"bytes", [b"a"], {"value": [b"a"]}], ids=repr)
def test_what_exports_nothing(data: object) -> None:
    with pytest.raises(InvalidRecordError, match=f"{type(data).__name__} is not Arrow data"):
        open_source(data)


class Exports:
    """Exports whatever a test likes."""

    def __init__(self, exported: object) -> None:
        self._exported = exported

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._exported


@pytest.mark.parametrize("exported", [None, (), (1, 2, 3), "ab"])
def test_what_is_no_pair_of_capsules(exported: object) -> None:
    with pytest.raises(InvalidRecordError, match="not two capsules"):
        open_source(Exports(exported))


def test_what_is_no_capsule_or_another_one() -> None:
    schema, array = BATCH.__arrow_c_array__()
    with pytest.raises(InvalidRecordError, match="int is not a capsule named arrow_schema"):
        open_source(Exports((1, array)))
    with pytest.raises(InvalidRecordError, match="PyCapsule is not a capsule named arrow_schema"):
        open_source(Exports((array, schema)))


def test_what_was_imported_before() -> None:
    exported = BATCH.__arrow_c_array__()
    pa.RecordBatch._import_from_c_capsule(*exported)
    with pytest.raises(InvalidRecordError, match="The arrow_schema was used before"):
        open_source(Exports(exported))
