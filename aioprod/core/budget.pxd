cdef class RoomRequest:
    cdef public object waiter
    cdef public long long size
    cdef public bint granted, keep


cdef class MemoryBudget:
    cdef public long long limit, used, records, reserved, refused
    cdef public object waiting

    cpdef bint fits(self, long long size) except -1
    cpdef void take(self, long long size) except *
    cpdef void release(self, long long size, long long records) except *
