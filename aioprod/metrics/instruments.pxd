cimport cython
from libc cimport math

from aioprod.metrics cimport native


cdef int _BUCKETS_PER_DOUBLING, _LOWEST, _HIGHEST, _BUCKET_OF_ZERO


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
    cdef long long[::1] _usual
    cdef long long _zeros
    cdef dict _rare
    cdef int _low, _high

    @cython.locals(bucket="long long")
    cpdef void record(self, double value, long long count=*) except *
    cpdef void add(self, Histogram other) except *
    @cython.locals(bucket="long long")
    cdef void _count(self, long long bucket, long long count) except *
    cdef list _buckets(self)


cdef double _middle(int bucket) noexcept
