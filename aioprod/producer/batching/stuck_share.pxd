cimport cython


@cython.final
cdef class StuckShare:
    cdef public long long limit, used, reserved, ceiling, done, open_to
    cdef public bint nothing_moves
    cdef long long _last_admitted
    cdef public dict held
    cdef public object topics, waiting
    cdef object _caller, _last_full

    cpdef bint fits(self, long long size, long long arrived=*, long long used=*) except -1
