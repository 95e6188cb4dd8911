cimport cython


cdef class MemoryRequest:
    cdef public object waiter
    cdef public long long size
    cdef public bint granted, keep


@cython.final
cdef class MemoryBudget:
    cdef public long long limit, open_to, used, records, reserved, rejected
    cdef public object waiting

    cpdef bint fits(self, long long size) except -1
    cpdef void take(self, long long size, long long records=*) noexcept
    cpdef void release(self, long long size, long long records) except *
