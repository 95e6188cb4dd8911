cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.batch cimport Batch, Run
from aioprod.producer.batching.lines cimport Lines
from aioprod.producer.batching.partition cimport Partition, Topic
from aioprod.producer.batching.partition_choice cimport PartitionChoice
from aioprod.records.builder cimport RecordBatchBuilder
from aioprod.records.bounds cimport record_size_bound


cdef Py_ssize_t LOOSE_OVERHEAD

@cython.locals(waiters=list, run=Run, partition=Partition)
cpdef void join_bulk(Batch batch, bulk, Py_ssize_t count=*) except *

@cython.locals(partition=Partition, batch=Batch, count=Py_ssize_t, size=Py_ssize_t)
cpdef void count_runs(Accumulator accumulator, list partitions, bulk, double now) except *


@cython.final
cdef class BulkValues:
    cdef readonly object bulk, places
    cdef readonly object values
    cdef readonly list keys, timestamps
    cdef readonly bytes headers
    cdef readonly Py_ssize_t at, accepted, needed
    cdef Py_ssize_t first
    cdef int partition
    cdef long long timestamp

    cpdef bint append(self, Accumulator accumulator, Topic topic, double now) except -1
    @cython.locals(
        places="int[::1]", stop=Py_ssize_t, left=Py_ssize_t, bound=Py_ssize_t, key=bytes, value=bytes, batch=Batch,
        in_runs=bint, in_keyed_runs=bint, size=Py_ssize_t, timestamp="long long",
    )
    cdef bint _append(self, Accumulator accumulator, Topic topic, double now) except -1
    @cython.locals(
        partition=Partition, batch=Batch, builder=RecordBatchBuilder, start=Py_ssize_t, size_max=Py_ssize_t,
        lines=Lines, count=Py_ssize_t, places="int[::1]", stop=Py_ssize_t, place=Py_ssize_t, size=Py_ssize_t,
    )
    cdef Py_ssize_t _append_run(self, Accumulator accumulator, Topic topic, Py_ssize_t left, double now) except -1
    @cython.locals(
        choice=PartitionChoice, is_sticky=bint, sticky=int, partitions=list, keys=list, values=list, places="int[::1]",
        timestamps=list, timestamp="long long",
        headers="const unsigned char *", headers_size=Py_ssize_t, end=Py_ssize_t, used=list, size=Py_ssize_t,
        at=Py_ssize_t, stop=Py_ssize_t, value=bytes, key=bytes, key_size=Py_ssize_t, value_size=Py_ssize_t, index=int,
        partition=Partition, taken=Py_ssize_t,
    )
    cdef Py_ssize_t _append_keyed_run(self, Accumulator accumulator, Topic topic, Py_ssize_t left, double now) except -1
