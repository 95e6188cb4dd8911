cdef class Guard:
    cdef public object state, loop, cause, barred
    cdef public bint forked
    cdef public long long era
    cdef bint _usable, _open
    cdef unsigned long long _thread
    cdef object _is_running, __weakref__

    cpdef void check(self) except *
    cpdef void check_era(self, long long era) except *
