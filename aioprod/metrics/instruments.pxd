cimport cython
from libc cimport math


cdef int BUCKETS_PER_DOUBLING, BUCKET_OF_ONE


@cython.final
cdef class Counter:
    cdef readonly str name, doc
    cdef readonly object unit
    cdef readonly long long value

    cpdef void add(self, long long count=*) except *


@cython.final
cdef class Histogram:
    cdef readonly str name, doc
    cdef readonly tuple parts
    cdef readonly object unit
    cdef public object listener
    cdef readonly long long count
    cdef readonly double total, max
    cdef dict _buckets
    cdef int _bucket, _low, _high
    cdef long long _in_bucket

    @cython.locals(bucket=int)
    cpdef void record(self, double value) except *
    cdef void _count_bucket(self) except *


cdef double _middle(int bucket) noexcept
