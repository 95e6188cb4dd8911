cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer cimport native


@cython.final
cdef class Entry:
    cdef readonly str topic
    cdef readonly bytes key, value, headers
    cdef readonly int partition
    cdef readonly long long timestamp, bound
    cdef readonly double now
    cdef readonly object waiter, reservation

    cpdef append_to(self, Accumulator accumulator, double now, long long granted)


@cython.locals(entry=Entry)
cpdef Entry new_entry(
    str topic, bytes key, bytes value, bytes headers, int partition, long long timestamp, waiter, double now,
    long long bound,
)
