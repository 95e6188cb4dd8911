cimport cython

from aioprod.arrow.columns cimport BytesColumn, NumberColumn, PairsColumn, TimestampColumn
from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.buffer_memory cimport MemoryBudget
from aioprod.producer.batching.partition_choice cimport PartitionChoice
from aioprod.producer.batching.bulk_topics cimport RowTopics
from aioprod.producer.batching.bulk_values cimport count_runs, join_bulk
from aioprod.producer.batching.partition cimport Partition, Topic
from aioprod.wire cimport memory
from aioprod.records.builder cimport RecordBatchBuilder
from aioprod.records.bounds cimport size_bound


cdef bytes NO_HEADERS
cdef Py_ssize_t LOOSE_OVERHEAD, _ROW_COST, _SLOW_ROW_COST, _PAIR_COST, _PAIR_SIZE_MIN


@cython.final
cdef class BulkColumns:
    cdef readonly object bulk, places, numbers
    cdef readonly Py_ssize_t at, accepted, needed
    cdef public long long timestamp
    cdef Py_ssize_t _first, _start, _stop, _left
    cdef BytesColumn _value, _key
    cdef NumberColumn _partition
    cdef TimestampColumn _timestamp
    cdef PairsColumn _headers
    cdef RowTopics _topics
    cdef bytearray _scratch

    cpdef bint append(self, Accumulator accumulator, Topic topic, double now) except -1
    @cython.locals(
        stop=Py_ssize_t, row=Py_ssize_t, places="int[::1]", numbers="int[::1]", value=BytesColumn, key=BytesColumn,
        choice=PartitionChoice, key_size=Py_ssize_t, headers_size=Py_ssize_t, timestamp="long long", bound=Py_ssize_t, index=int, batch=Batch,
        in_runs=bint,
    )
    cdef bint _append(self, Accumulator accumulator, Topic topic, double now) except -1
    @cython.locals(
        partition=Partition, batch=Batch, builder=RecordBatchBuilder, start=Py_ssize_t, budget=MemoryBudget,
        end=Py_ssize_t, first=Py_ssize_t, stop=Py_ssize_t, value=BytesColumn, timestamp="long long", row=Py_ssize_t,
    )
    cdef bint _append_run(self, Accumulator accumulator, Topic topic, double now) except -1
    @cython.locals(
        choice=PartitionChoice, is_sticky=bint, sticky=int, partitions=list, key=BytesColumn, value=BytesColumn,
        places="int[::1]", timestamp="long long", end=Py_ssize_t, first=Py_ssize_t, row=Py_ssize_t, stop=Py_ssize_t,
        times=TimestampColumn, headers="const unsigned char *", used=list, size=Py_ssize_t, index=int,
        partition=Partition, taken=Py_ssize_t,
    )
    cdef bint _append_keyed_run(self, Accumulator accumulator, Topic topic, double now) except -1
    @cython.locals(count=Py_ssize_t, index=int, places="int[::1]", row=Py_ssize_t)
    cdef void _end_run(
        self, Accumulator accumulator, Batch batch, Py_ssize_t stop, Py_ssize_t size, double now
    ) except *
    @cython.locals(
        pairs=PairsColumn, names=BytesColumn, values=BytesColumn, size=Py_ssize_t, stop=Py_ssize_t, pair=Py_ssize_t,
        p="unsigned char *", pos=Py_ssize_t,
    )
    cdef Py_ssize_t _put_headers(self, Accumulator accumulator, Topic topic, Py_ssize_t row) except -1
