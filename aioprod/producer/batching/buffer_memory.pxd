cimport cython

from aioprod.producer.batching.stuck_share cimport StuckShare
from aioprod.wire cimport memory


cdef class Reservation:
    cdef public object place, waiter
    cdef public long long arrived, size
    cdef public double since
    cdef public bint granted, is_held_back, keep, shares


@cython.final
cdef class MemoryBudget:
    cdef public long long limit, open_to, used, records, reserved, rejected
    cdef public object waiting
    cdef readonly StuckShare stuck
    cdef long long _arrivals

    cpdef bint fits(self, long long size) except -1
    cpdef void take(self, long long size, long long records=*) noexcept
    cpdef void release(self, long long size, long long records) except *


cdef class BufferPool:
    cdef readonly Py_ssize_t full_size, free_max
    cdef readonly list free
    cdef Py_ssize_t _kept_max, _grown_kept
    cdef dict _grown

    @cython.locals(size=Py_ssize_t)
    cpdef bytearray acquire(self, Py_ssize_t need)
    cpdef bytearray larger(self, bytearray buffer, Py_ssize_t need)
    @cython.locals(size=Py_ssize_t)
    cpdef void release(self, bytearray buffer) except *
    @cython.locals(kept=list)
    cpdef bytearray acquire_grown(self, Py_ssize_t size)
    @cython.locals(others=list)
    cdef _release_grown(self, bytearray buffer, Py_ssize_t size)
