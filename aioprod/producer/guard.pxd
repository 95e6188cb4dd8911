cimport cython

from aioprod.producer cimport native


@cython.final
cdef class Guard:
    cdef public object state, loop, cause
    cdef public bint forked
    cdef public long long transaction
    cdef bint _usable, _open
    cdef unsigned long _thread
    cdef object _rules, _is_running, __weakref__

    # int, for nothing: after a void function Cython checks for an error.
    cpdef int check(self) except -1
    cpdef void check_transaction(self, long long transaction) except *
